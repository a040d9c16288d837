// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/supervisor/rights_fixture.h"

#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cctype>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "daemon/base/files.h"
#include "tests/unit/child.h"

namespace ppc::control {

namespace fs = std::filesystem;

void RightsTest::SetUp() {
  DaemonTest::SetUp();
  if (geteuid() != 0) GTEST_SKIP() << "needs root to become somebody else";
  const fs::path proc = dir_ + "/procroot/proc";
  fs::create_directories(proc);
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (std::isdigit(static_cast<unsigned char>(name[0])) == 0) {
      fs::create_symlink(entry.path(), proc / name);
    }
  }
  environment_.push_back("PPC_PROCROOT=" + dir_ + "/procroot");
  for (const char* cgroup : {"/", "/pods/a", "/pods/a/below", "/pods/b"}) MakeGroup(cgroup);
  ASSERT_EQ(chmod(dir_.c_str(), 0755), 0);
  DaemonTest::Start();
}

void RightsTest::TearDown() {
  for (const pid_t pid : kept_) KillAndReap(pid);
  DaemonTest::TearDown();
}

void RightsTest::MakeGroup(const std::string& cgroup) {
  fs::create_directories(dir_ + "/sysroot/sys/fs/cgroup" + cgroup);
}

void RightsTest::RemoveGroup(const std::string& cgroup) {
  fs::remove_all(dir_ + "/sysroot/sys/fs/cgroup" + cgroup);
}

void RightsTest::PutIntoGroup(pid_t pid, const std::string& cgroup) {
  const std::string number = std::to_string(pid);
  const fs::path entry = dir_ + "/procroot/proc/" + number;
  fs::create_directories(entry);
  for (const char* file : {"stat", "status"}) {
    if (!fs::is_symlink(entry / file))
      fs::create_symlink("/proc/" + number + "/" + file, entry / file);
  }
  std::ofstream(entry / "cgroup.new") << "0::" << cgroup << "\n";
  fs::rename(entry / "cgroup.new", entry / "cgroup");
}

void RightsTest::Become(const Caller& caller) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  PutIntoGroup(getpid(), caller.cgroup);
  if (caller.uid == 0) return;
  if (setgroups(0, nullptr) != 0 || setgid(caller.uid) != 0 || setuid(caller.uid) != 0) _exit(99);
}

std::vector<Json> RightsTest::AskAs(const Caller& caller, const std::vector<Json>& requests) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return {};
  UniqueFd read_end(ends[0]), write_end(ends[1]);
  const pid_t pid = StartChild([&] {
    Become(caller);
    RawClient client(caller.uses_admin_socket ? socket_ : service_socket_);
    std::string text;
    for (const Json& request : requests) text += DumpJson(client.Ask(request)) + "\n";
    (void)WriteAll(write_end.Get(), text.data(), text.size());
  });
  write_end.Reset();
  std::string text;
  char part[4096];
  for (ssize_t got; (got = read(read_end.Get(), part, sizeof(part))) > 0;) {
    text.append(part, static_cast<size_t>(got));
  }
  waitpid(pid, nullptr, 0);
  std::vector<Json> answers;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) answers.push_back(Json::parse(line));
  answers.resize(requests.size());
  return answers;
}

Json RightsTest::AskAs(const Caller& caller, const Json& request) {
  return AskAs(caller, std::vector<Json>{request})[0];
}

pid_t RightsTest::Keep(const Caller& caller, const std::function<void()>& function) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return -1;
  const UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  const pid_t pid = StartChild([&] {
    Become(caller);
    function();
    write_end.Reset();
    while (true) pause();
  });
  write_end.Reset();
  char byte;
  (void)!read(read_end.Get(), &byte, 1);  // returns once the function has
  kept_.push_back(pid);
  return pid;
}

Json RightsTest::Start(const std::string& id, Json more) {
  more["op"] = "service_start";
  more["mount"] = kMount;
  more["service_id"] = id;
  more["wait_ms"] = 60000;
  return more;
}

Json RightsTest::About(const char* op, const std::string& id) {
  return {{"op", op}, {"mount", kMount}, {"service_id", id}};
}

std::string RightsTest::CodeOf(const Json& answer) {
  if (!answer.is_object()) return "no answer";
  return answer.value("ok", false) ? "" : answer.value("code", "no code");
}

}  // namespace ppc::control
