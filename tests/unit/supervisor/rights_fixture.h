// SPDX-License-Identifier: Apache-2.0
// A ppcd whose /proc says of processes what a test wants: peers in made-up control groups.
#ifndef PPC_TESTS_UNIT_SUPERVISOR_RIGHTS_FIXTURE_H_
#define PPC_TESTS_UNIT_SUPERVISOR_RIGHTS_FIXTURE_H_

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/unit/supervisor/daemon_fixture.h"

namespace ppc::control {

class RightsTest : public DaemonTest {
 protected:
  struct Caller {
    std::string name;
    std::string cgroup;
    uid_t uid = 0;
    bool uses_admin_socket = false;
  };

  // Skips where tests do not run as root.
  void SetUp() override;

  // Makes the control group, as far as ppcd looks.
  void MakeGroup(const std::string& cgroup);
  void RemoveGroup(const std::string& cgroup);
  // What /proc says of a process from now on.
  void PutIntoGroup(pid_t pid, const std::string& cgroup);

  // The answers that the caller, a process of its own, gets on one connection.
  std::vector<Json> AskAs(const Caller& caller, const std::vector<Json>& requests);
  // The first request.
  Json AskAs(const Caller& caller, const Json& request);
  // A process of the caller that lives until the end of the test and runs `function` first.
  pid_t Keep(
      const Caller& caller, const std::function<void()>& function = [] {});
  void TearDown() override;

  Json Start(const std::string& id, Json more = Json::object());
  Json About(const char* op, const std::string& id);
  // "" for an answer that is no error.
  static std::string CodeOf(const Json& answer);

 private:
  void Become(const Caller& caller);
  std::vector<pid_t> kept_;
};

}  // namespace ppc::control

#endif  // PPC_TESTS_UNIT_SUPERVISOR_RIGHTS_FIXTURE_H_
