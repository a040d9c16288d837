// SPDX-License-Identifier: Apache-2.0
// ppc-nri: connects to the NRI socket of a container runtime, again and again, and tells ppcd of
// the containers' services.  A child does this for each event and is killed when its time is over:
// files or a ppcd that do not answer keep no container waiting.
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>

#include "daemon/base/files.h"
#include "daemon/base/log.h"
#include "daemon/base/unique_fd.h"
#include "daemon/wire/listen_socket.h"
#include "extras/nri/plugin.h"
#include "extras/nri/program.h"
#include "extras/oci/service_messages.h"
#include "tools/ppcctl/environment.h"
#include "tools/ppcctl/spec.h"

namespace ppc::nri {
namespace {

// A pod's image is there when its container is made; what follows takes seconds.
constexpr unsigned kAwaitS = 60;
constexpr unsigned kRetryS = 1;
constexpr size_t kReadBytes = 64 << 10;

bool IsOurs(const oci::Container& container) {
  return std::ranges::any_of(container.annotations,
                             [](const auto& entry) { return entry.first.starts_with("ppc."); });
}

Status Tell(const Event& event, unsigned timeout_ms) {
  oci::Call call = oci::CallOfEnvironment(timeout_ms);
  call.may_register = false;
  switch (event.what) {
    case Event::What::kCreate:
      // A runtime that hides the sandbox's process: the load begins with the container.
      return event.container.pid == 0 ? Ok() : StartService(call, event.container, kAwaitS);
    case Event::What::kStart:
      return StartService(call, event.container);
    default:
      return StopService(call, event.container);
  }
}

[[noreturn]] void Work(const Event& event, unsigned timeout_ms) {
  // The connection ends with its owner, whatever this process hangs in.
  CloseFrom(STDERR_FILENO + 1);
  // A directory without host files: a word of a command must not match a path of the host.
  if (chdir("/proc/self/attr") != 0 && chdir("/") != 0) _exit(1);
  const Status status = Tell(event, timeout_ms);
  if (!status) {
    Log(LogLevel::kWarning, "container " + event.container.id + ": " + status.error().message +
                                "; it goes on without PPC");
  }
  _exit(0);
}

void Handle(const Event& event, unsigned timeout_ms) {
  // A runtime may not know the annotations of a pod that is gone.
  if (event.what != Event::What::kStop && !IsOurs(event.container)) return;
  const pid_t child = fork();
  if (child == 0) Work(event, timeout_ms * 3 / 4);
  if (child < 0) return Log(LogLevel::kWarning, PosixError("fork", errno).message);
  const UniqueFd process(static_cast<int>(syscall(SYS_pidfd_open, child, 0)));
  pollfd end{process.Get(), POLLIN, 0};
  // Without the descriptor it has ended already: the kernel reaps our children.
  if (!process.IsValid() || poll(&end, 1, static_cast<int>(timeout_ms)) > 0) return;
  // Not waited for: a process blocked by a dead file server does not even die.
  kill(child, SIGKILL);
  Log(LogLevel::kWarning, "container " + event.container.id +
                              ": telling ppcd of it took more than its time; it goes on without "
                              "PPC");
}

Result<UniqueFd> Connect(const std::string& socket) {
  const Result<sockaddr_un> address = control::SocketAddress(socket);
  if (!address) return address.error();
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto* name = reinterpret_cast<const sockaddr*>(&*address);
  if (!fd.IsValid() || connect(fd.Get(), name, sizeof(*address)) != 0) {
    return PosixError("no runtime with NRI answers at " + socket, errno);
  }
  return fd;
}

// Until the connection ends.
Status Serve(const UniqueFd& runtime, unsigned timeout_ms) {
  Plugin plugin(
      [&](const std::string& bytes) { return WriteAll(runtime.Get(), bytes.data(), bytes.size()); },
      [&](const Event& event) { Handle(event, timeout_ms); });
  const auto named = [](const char* variable, const char* usual) {
    const std::string name = ctl::FromEnvironment(variable);
    return name.empty() ? usual : name;
  };
  Status status = plugin.Register(named("NRI_PLUGIN_NAME", "ppc"), named("NRI_PLUGIN_IDX", "50"));
  std::string bytes(kReadBytes, '\0');
  while (status) {
    const ssize_t got = read(runtime.Get(), bytes.data(), bytes.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return PosixError("the runtime", got == 0 ? ECONNRESET : errno);
    status = plugin.Take({bytes.data(), static_cast<size_t>(got)});
  }
  return status;
}

Status Run(const cli::Args& args) {
  const Result<int64_t> timeout_ms =
      ctl::ReadWhole("--timeout-ms", args.Get("--timeout-ms", kTimeoutMs), 1);
  if (!timeout_ms) return timeout_ms.error();
  const auto limit = static_cast<unsigned>(std::min<int64_t>(*timeout_ms, kMaxTimeoutMs));
  // Started by the runtime itself, with the connection.
  const std::string given = ctl::FromEnvironment("NRI_PLUGIN_SOCKET");
  if (!given.empty()) return Serve(UniqueFd(std::atoi(given.c_str())), limit);
  const std::string socket = args.Get("--nri-socket", kNriSocket);
  for (std::string said;; sleep(kRetryS)) {
    const Result<UniqueFd> runtime = Connect(socket);
    if (runtime) Log(LogLevel::kInfo, "connected to " + socket);
    const Status status = runtime ? Serve(*runtime, limit) : Status(runtime.error());
    if (status.error().message != said) Log(LogLevel::kWarning, status.error().message);
    said = status.error().message;
  }
}

}  // namespace
}  // namespace ppc::nri

int main(int argc, char** argv) {
  const std::span<char* const> arguments(argv, static_cast<size_t>(argc));
  const ppc::Result<ppc::cli::Parsed> parsed =
      ppc::cli::Parse(ppc::nri::Program(), arguments.subspan(argc > 0 ? 1 : 0));
  if (parsed && parsed->verb == nullptr) return std::fputs(parsed->text.c_str(), stdout) < 0;
  ppc::SetLog("ppc-nri", ppc::LogLevel::kInfo);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGCHLD, SIG_IGN);
  const ppc::Status status = parsed ? ppc::nri::Run(parsed->args) : parsed.error();
  std::fprintf(stderr, "ppc-nri: %s\n", status.error().message.c_str());
  return parsed ? 1 : 2;
}
