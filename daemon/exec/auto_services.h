// SPDX-License-Identifier: Apache-2.0
// Owns the starts of which no message tells.
//
// A reader that belongs to no service gets an automatic one at its first miss in a large file: of
// all processes of its process group that run the same program, and their descendants.  Its ID is
// made of the program and the model (see program.h), so that the next start finds what was
// recorded.  It ends when these processes have.
//
// An open service (the registration's own) stands while its readers come and go: when all programs
// that have read have ended, the next one to read begins another start of it.
//
// Threads: the executor's; /proc and directories are read elsewhere.
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
#include "daemon/exec/program.h"
#include "daemon/exec/service_table.h"

namespace ppc {

class AutoServices {
 public:
  // Any process may look at a smaller file.
  static constexpr uint64_t kLargeBytes = 32 << 20;

  struct Parts {
    ServiceTable* services = nullptr;
    Backend* backend = nullptr;  // lists directories; nullptr: none is listed
    SysRoots roots;
    // Runtime::Control and Runtime::Do.
    std::function<void(Json message, std::function<void(Result<Json>)> done)> control;
    std::function<void(std::function<void()> work, std::function<void()> done)> elsewhere;
    // For what reads of a process, which may take as long as it hangs.
    Elsewhere look_up;
    // A reader has been decided on.
    std::function<void()> on_decided;
    // An open service has begun another start; on the control worker's thread.
    std::function<void(const std::string& id)> on_again;
    bool has_autos = true;  // false: of open services alone
  };

  explicit AutoServices(Parts parts) : parts_(std::move(parts)) {}

  // Of an event whose reader belongs to `owner`: the mount itself (a stranger) or an open service.
  // True: the start that it belongs to is being decided; ask again then.
  bool Takes(const Event& event, uint64_t file_bytes, const std::string& path,
             const Service& owner);
  // Between two events: begins to decide.
  void Decide();
  // Now and then, and when a told service has started: ends automatic services whose programs have
  // ended or belong to a told service now.
  void EndGone();

 private:
  using Root = Membership::Root;
  struct Reader {
    int pid = 0;
    uint64_t start_ns = 0;
    std::string path;   // of the file that it missed, below the directory
    std::string owner;  // an open service's ID; "": it is a stranger
  };
  struct Identity {
    Program program;
    std::string id;
    bool has_cgroup = false;  // of its own, that can pay
  };
  // An automatic service, or the present start of an open one.
  struct Start {
    std::vector<Root> programs;
    int group = 0;
    bool is_started = false;  // an automatic service: until then its readers wait
    std::vector<Reader> waiting;
  };
  using Starts = std::map<std::string, Start>;  // by the service's ID
  struct Question {
    uint64_t start_ns = 0;
    bool is_decided = false;
  };
  using Place = void (AutoServices::*)(const Reader&, const Identity&);

  static std::optional<Identity> Identify(const SysRoots& roots, Backend* backend,
                                          const Reader& reader);
  bool WithEnded(Starts* starts, const std::string& family, std::function<void()> then);
  void PlaceAuto(const Reader& reader, const Identity& identity);
  void PlaceOpen(const Reader& reader, const Identity& identity);
  void Begin(const Reader& reader, const Identity& identity, const std::string& id);
  void Started(const std::string& id, bool is_started);
  void BeginAgain(const Reader& reader, const Identity& identity);
  void Decided(const Reader& reader);
  void End(Starts* starts, const std::string& id);

  static constexpr size_t kMaxServices = 64;
  static constexpr size_t kMaxProcesses = 4096;
  static constexpr size_t kMaxPrograms = 256;

  const Parts parts_;
  std::unordered_map<int, Question> questions_;
  std::vector<Reader> wanted_;
  Starts live_;
  Starts open_;
};

}  // namespace ppc

#endif  // PPC_DAEMON_EXEC_AUTO_SERVICES_H_
