// SPDX-License-Identifier: Apache-2.0
// Owns the services of readers of whom nobody told: while no service is started, whoever misses in
// a large file gets one for his process group and its descendants, which ends with the group's
// leader. It is named by the leader's command line, so that what is learnt of it is found again.
// Threads: the executor's; /proc is read elsewhere.
#ifndef PPC_DAEMON_EXEC_AUTO_SERVICES_H_
#define PPC_DAEMON_EXEC_AUTO_SERVICES_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "daemon/backend/backend.h"
#include "daemon/base/json.h"
#include "daemon/exec/elsewhere.h"
#include "daemon/exec/service_table.h"

namespace ppc {

class AutoServices {
 public:
  // Smaller files are looked at by anybody.
  static constexpr uint64_t kLargeBytes = 32 << 20;

  struct Parts {
    ServiceTable* services = nullptr;
    SysRoots roots;
    // Runtime::Control and Runtime::Do.
    std::function<void(Json message, std::function<void(Result<Json>)> done)> control;
    std::function<void(std::function<void()> work, std::function<void()> done)> elsewhere;
    // For what reads of a process, which may take as long as it hangs.
    Elsewhere look_up;
    // Whose somebody is has been decided.
    std::function<void()> on_decided;
  };

  explicit AutoServices(Parts parts) : parts_(std::move(parts)) {}

  // Of somebody who belongs to nobody.  True: that is to be decided, ask again then.
  bool Takes(const Event& event, uint64_t file_bytes);
  // Between two events: begins to decide.
  void Decide();
  // Now and then: ends those whose leader is gone.
  void EndGone();
  // A service was told of: it alone decides from now on.
  void EndAll();

 private:
  struct Process {
    int pid = 0;
    uint64_t start_ns = 0;
  };
  struct Identity {
    Process leader;
    std::string id;
    std::string cgroup;  // "" none that can be used
  };
  struct Question {
    uint64_t start_ns = 0;
    bool is_decided = false;
  };
  static std::optional<Identity> Identify(const SysRoots& roots, const Process& reader);
  void Place(const Process& reader, const std::optional<Identity>& identity);
  void Start(const Process& reader, const std::optional<Identity>& identity);
  bool EndIfGone(const std::string& id, const Process& leader, std::function<void()> then);
  std::string FreeName(const Identity& identity) const;
  void Decided(const Process& reader);
  void Stop(const std::string& id);

  static constexpr size_t kMaxServices = 64;
  static constexpr size_t kMaxProcesses = 4096;

  const Parts parts_;
  std::unordered_map<int, Question> questions_;
  std::vector<Process> wanted_;
  std::map<std::string, Process> live_;  // by id: the leader
};

}  // namespace ppc

#endif  // PPC_DAEMON_EXEC_AUTO_SERVICES_H_
