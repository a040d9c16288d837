// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/supervisor/daemon_fixture.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include "daemon/base/clock.h"
#include "daemon/wire/listen_socket.h"
#include "tools/ppcctl/program.h"

namespace ppc::control {
namespace {

std::string BinDir() { return PPC_TEST_BIN_DIR; }

pid_t Spawn(const std::vector<std::string>& argv, const std::vector<std::string>& environment,
            int out, int err) {
  const pid_t pid = fork();
  if (pid != 0) return pid;
  dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  for (const std::string& entry : environment) putenv(const_cast<char*>(entry.c_str()));
  std::vector<char*> raw;
  for (const std::string& word : argv) raw.push_back(const_cast<char*>(word.c_str()));
  raw.push_back(nullptr);
  execv(raw[0], raw.data());
  _exit(127);
}

int ExitStatusOf(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

std::string TextOf(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

}  // namespace

bool HasVerb(const std::string& name) {
  const auto& verbs = ctl::CtlProgram().verbs;
  return std::any_of(verbs.begin(), verbs.end(),
                     [&](const cli::Verb& verb) { return name == verb.name; });
}

RawClient::RawClient(const std::string& socket_path) {
  const Result<sockaddr_un> address = SocketAddress(socket_path);
  if (!address) return;
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (connect(fd.Get(), reinterpret_cast<const sockaddr*>(&*address), sizeof(*address)) == 0) {
    fd_ = std::move(fd);
  }
}

void RawClient::Send(const std::string& bytes) {
  size_t at = 0;
  while (at < bytes.size()) {
    const ssize_t put = send(fd_.Get(), bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
    if (put <= 0) return;
    at += static_cast<size_t>(put);
  }
}

void RawClient::CloseWriting() { shutdown(fd_.Get(), SHUT_WR); }

std::string RawClient::ReadLine(int timeout_ms) {
  const uint64_t deadline = MonotonicNs() + static_cast<uint64_t>(timeout_ms) * kNsPerMs;
  while (buffer_.find('\n') == std::string::npos) {
    const uint64_t now = MonotonicNs();
    pollfd waiting{fd_.Get(), POLLIN, 0};
    if (now >= deadline ||
        poll(&waiting, 1, static_cast<int>((deadline - now) / kNsPerMs) + 1) <= 0) {
      return "";
    }
    std::array<char, 65536> data;
    const ssize_t got = recv(fd_.Get(), data.data(), data.size(), 0);
    if (got <= 0) return "";
    buffer_.append(data.data(), static_cast<size_t>(got));
  }
  const size_t end = buffer_.find('\n');
  std::string line = buffer_.substr(0, end);
  buffer_.erase(0, end + 1);
  return line;
}

bool RawClient::IsClosedByPeer(int timeout_ms) {
  pollfd waiting{fd_.Get(), POLLIN, 0};
  while (poll(&waiting, 1, timeout_ms) > 0) {
    std::array<char, 65536> data;
    if (recv(fd_.Get(), data.data(), data.size(), 0) <= 0) return true;
  }
  return false;
}

Json RawClient::Ask(Json request) {
  if (!IsConnected()) return nullptr;
  request["v"] = 1;
  SendLine(DumpJson(request));
  return Answer();
}

ProcessResult RunProcess(const std::vector<std::string>& argv,
                         const std::vector<std::string>& environment) {
  char out_name[] = "/tmp/ppc-out-XXXXXX";
  char err_name[] = "/tmp/ppc-err-XXXXXX";
  const UniqueFd out(mkostemp(out_name, O_CLOEXEC));
  const UniqueFd err(mkostemp(err_name, O_CLOEXEC));
  const pid_t pid = Spawn(argv, environment, out.Get(), err.Get());
  int status = 0;
  ProcessResult result;
  const auto has_ended = [&] { return waitpid(pid, &status, WNOHANG) == pid; };
  if (!Eventually(has_ended, std::chrono::seconds(30))) {
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
  }
  result.exit_status = ExitStatusOf(status);
  result.out = TextOf(out_name);
  result.err = TextOf(err_name);
  unlink(out_name);
  unlink(err_name);
  return result;
}

void DaemonTest::SetUp() {
  char name[] = "/tmp/ppc-control-XXXXXX";
  dir_ = mkdtemp(name);
  socket_ = dir_ + "/run/ppcd.sock";
  service_socket_ = dir_ + "/run/service/ppcd.sock";
  std::filesystem::create_directories(dir_ + "/run");
  std::filesystem::create_directories(dir_ + "/policies");
  for (const char* policy : {"alpha", "beta"}) {
    std::ofstream(dir_ + "/policies/libppc_" + policy + ".so") << "not loaded by the fake";
  }
  Mount(0, kMount);
  Mount(3, kOtherMount);
  environment_ = {"PPC_SYSROOT=" + dir_ + "/sysroot",
                  "PPC_RUNNER=" + BinDir() + "/ppc-fake-runner",
                  "PPC_POLICY_DIR=" + dir_ + "/policies",
                  "PPC_SOCKET=" + socket_,
                  "PPC_TEMPLATE_DIR=" + dir_ + "/templates",
                  "PPC_TIME_SCALE_PERCENT=" + std::to_string(time_scale_percent_)};
}

void DaemonTest::TearDown() {
  if (daemon_ > 0) StopDaemon();
  if (HasFailure()) std::fprintf(stderr, "--- ppcd's log\n%s", DaemonLog().c_str());
  // A private ppcd of `ppcctl run` may still remove its own part.
  EXPECT_TRUE(Eventually([this] {
    std::error_code error;
    std::filesystem::remove_all(dir_, error);
    return !error;
  })) << dir_;
}

void DaemonTest::Mount(unsigned index, const char* path) {
  struct stat info {};
  ASSERT_EQ(stat(path, &info), 0);
  const std::string entry = dir_ + "/sysroot/sys/fs/ppc/" + std::to_string(index);
  std::filesystem::create_directories(entry);
  std::ofstream(entry + "/dev") << major(info.st_dev) << ":" << minor(info.st_dev) << "\n";
  std::ofstream(entry + "/events_queued") << "12\n";
}

void DaemonTest::Unmount(unsigned index) {
  std::filesystem::remove_all(dir_ + "/sysroot/sys/fs/ppc/" + std::to_string(index));
}

std::string DaemonTest::ReadText(const std::string& path) { return TextOf(path); }

void DaemonTest::StartDaemon(const std::vector<std::string>& more_arguments) {
  std::vector<std::string> argv = {BinDir() + "/ppcd", "--verbose", "--state-dir", dir_ + "/run"};
  argv.insert(argv.end(), more_arguments.begin(), more_arguments.end());
  const UniqueFd log(
      open((dir_ + "/log").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  daemon_ = Spawn(argv, environment_, log.Get(), log.Get());
  // It answers when all is there that it makes at its start, the services' socket too.
  ASSERT_TRUE(Eventually([this] { return Ask({{"op", "ping"}}).is_object(); })) << DaemonLog();
}

int DaemonTest::StopDaemon(int signal) {
  kill(daemon_, signal);
  int status = 0;
  if (!Eventually([&] { return waitpid(daemon_, &status, WNOHANG) == daemon_; })) {
    kill(daemon_, SIGKILL);
    waitpid(daemon_, &status, 0);
  }
  daemon_ = -1;
  return ExitStatusOf(status);
}

bool DaemonTest::IsDaemonRunning() const {
  return daemon_ > 0 && waitpid(daemon_, nullptr, WNOHANG) == 0;
}

Json DaemonTest::Ask(const Json& request) {
  Json patient = request;
  if (request.value("op", "") == "service_start" && !request.contains("wait_ms")) {
    patient["wait_ms"] = 60000;
  }
  return RawClient(socket_).Ask(patient);
}

Json DaemonTest::Register(const Json& fake, const std::string& policy, const std::string& mount) {
  return Ask(
      {{"op", "reg_policy"}, {"mount", mount}, {"policy", policy}, {"config", {{"fake", fake}}}});
}

Json DaemonTest::StatusOf(const std::string& mount) {
  const Json answer = Ask({{"op", "status"}, {"mount", mount}});
  if (!answer.is_object() || !answer.contains("mounts")) return answer;
  return answer["mounts"].at(0);
}

std::string DaemonTest::StateOf(const std::string& mount) {
  const Json status = StatusOf(mount);
  return status.is_object() ? status.value("state", "") : "";
}

bool DaemonTest::WaitForState(const std::string& state, const std::string& mount) {
  return Eventually([&] { return StateOf(mount) == state; });
}

pid_t DaemonTest::RunnerPid(const std::string& mount) { return StatusOf(mount).value("pid", -1); }

ProcessResult DaemonTest::Ctl(const std::vector<std::string>& arguments) {
  std::vector<std::string> argv = {BinDir() + "/ppcctl"};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return RunProcess(argv, environment_);
}

std::string DaemonTest::Out(const std::vector<std::string>& arguments) {
  const ProcessResult result = Ctl(arguments);
  EXPECT_EQ(result.exit_status, 0) << arguments[0] << ": " << result.err;
  return result.out;
}

void ExpectOneLine(const ProcessResult& result, const std::string& part) {
  EXPECT_TRUE(result.err.starts_with("ppcctl: ")) << result.err;
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  EXPECT_TRUE(Has(result.err, part));
}

void ExpectFailure(const ProcessResult& result, int exit_status, const std::string& part) {
  EXPECT_EQ(result.exit_status, exit_status) << result.err;
  ExpectOneLine(result, part);
}

void ExpectJsonFailure(const ProcessResult& result, int exit_status) {
  ExpectFailure(result, exit_status);
  const Result<Json> json = ParseJsonObject(result.out, "output");
  ASSERT_TRUE(json) << result.out;
  EXPECT_EQ((*json)["schema"], 1);
  EXPECT_EQ((*json)["ok"], false);
  EXPECT_EQ((*json)["exit_status"], exit_status);
  EXPECT_EQ("ppcctl: " + json->value("error", "") + "\n", result.err);
}

void ExpectRan(const ProcessResult& result, int exit_status, const std::string& out,
               const std::optional<std::string>& err) {
  EXPECT_EQ(result.exit_status, exit_status) << result.err;
  EXPECT_EQ(result.out, out) << result.err;
  if (err) {
    EXPECT_EQ(result.err, *err);
  }
}

}  // namespace ppc::control
