// SPDX-License-Identifier: Apache-2.0
// ppcd, the supervisor: wiring only.  See docs/control-protocol.md.
#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "daemon/base/log.h"
#include "daemon/supervisor/memory_floor.h"
#include "daemon/supervisor/options.h"
#include "daemon/supervisor/registry.h"
#include "daemon/supervisor/rights.h"
#include "daemon/supervisor/server.h"
#include "daemon/supervisor/service_manager.h"
#include "daemon/supervisor/syscall_filter.h"
#include "daemon/wire/listen_socket.h"
#include "daemon/wire/notify.h"

namespace ppc::control {
namespace {

constexpr int kExitFailed = 1;
constexpr int kExitUsage = 2;
// For `ppcctl logs`, where there is no journal.
constexpr size_t kLogLinesKept = 500;
// FileDescriptorName= of ppcd.socket.
constexpr const char* kAdminSocket = "admin";
constexpr const char* kServiceSocket = "service";

Result<UniqueFd> CatchSignals() {
  signal(SIGPIPE, SIG_IGN);
  signal(SIGHUP, SIG_IGN);
  signal(SIGCHLD, SIG_DFL);  // if our parent ignored it, runners could not be waited for
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  if (sigprocmask(SIG_BLOCK, &set, nullptr) != 0) return PosixError("sigprocmask", errno);
  UniqueFd fd(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd.IsValid()) return PosixError("signalfd", errno);
  return fd;
}

// On the service manager's socket where it handed one over, else on ppcd's own.
Result<std::unique_ptr<Server>> ServeAdmin(const Server::Environment& environment,
                                           const Options& options,
                                           std::optional<InheritedSocket> given,
                                           const Server::Handler& handler) {
  if (given) return Server::Adopt(environment, Server::Kind::kAdmin, std::move(*given), handler);
  return Server::Listen(environment, Server::Kind::kAdmin, options.socket, handler);
}

// In a directory of its own, which outlives ppcd where it is mounted into containers; null:
// without.
Result<std::unique_ptr<Server>> ServeServices(const Server::Environment& environment,
                                              const Options& options,
                                              std::optional<InheritedSocket> given,
                                              const Server::Handler& handler) {
  if (given) return Server::Adopt(environment, Server::Kind::kService, std::move(*given), handler);
  const std::string& path = options.service_socket;
  if (path.empty()) return std::unique_ptr<Server>();
  if (path == ServiceSocketBeside(options.socket) && !SocketAddress(path)) {
    Log(LogLevel::kWarning, "no socket for services: " + path +
                                " is too long for a socket's name; give --service-socket another");
    return std::unique_ptr<Server>();
  }
  const std::string dir = path.substr(0, path.rfind('/'));
  // Whatever the umask is: others are to get there.
  if (mkdir(dir.c_str(), 0755) == 0) {
    (void)chmod(dir.c_str(), 0755);
  } else if (errno != EEXIST) {
    return PosixError("mkdir " + dir, errno);
  }
  return Server::Listen(environment, Server::Kind::kService, path, handler);
}

Status Serve(const Options& options) {
  Result<InheritedSockets> inherited = InheritedSockets::FromEnvironment();
  if (!inherited) return inherited.error();
  Result<UniqueFd> signals = CatchSignals();
  if (!signals) return signals.error();
  Result<StateDir> state = StateDir::Open(options.state_dir, options.is_private);
  if (!state) return state.error();
  Result<std::unique_ptr<EventLoop>> loop = EventLoop::Create();
  if (!loop) return loop.error();
  EventLoop& events = **loop;

  std::unique_ptr<MemoryFloor> floor;
  if (options.free_floor > 0) {
    Result<std::unique_ptr<MemoryFloor>> kept = KeepFree(options.roots, options.free_floor);
    if (!kept) return kept.error();
    floor = *std::move(kept);
  }
  Registry registry(events, options, std::move(state).value(), floor.get());
  Refusals refusals;
  const Server::Environment environment{events, refusals, options.roots, options.idle_limit};
  const Server::Handler handler = [&registry](const Request& request, const Peer& peer,
                                              Reply reply) {
    registry.Handle(request, peer, std::move(reply));
  };
  std::optional<InheritedSocket> given = inherited->Take(kAdminSocket);
  std::optional<InheritedSocket> given_services = inherited->Take(kServiceSocket);
  if (const Status status = inherited->CheckAllTaken(); !status) return status.error();
  // Before root's socket: who has reached that finds it.
  Result<int> metrics_port = 0;
  if (!options.metrics.empty())
    metrics_port = registry.monitoring().Serve(events, options.metrics, options.metrics_token);
  if (!metrics_port) return metrics_port.error();
  const std::string path = given ? given->path : options.socket;
  Result<std::unique_ptr<Server>> admin =
      ServeAdmin(environment, options, std::move(given), handler);
  if (!admin) return admin.error();
  // `ppcctl run` has connected before its command can: nothing is asked of a service that is not
  // started yet.
  if (options.is_private && !(*admin)->owns_file()) (*admin)->ServeFirstAlone();
  const std::string service_path = given_services ? given_services->path : options.service_socket;
  Result<std::unique_ptr<Server>> services =
      ServeServices(environment, options, std::move(given_services), handler);
  if (!services) return services.error();

  bool is_ending = false;
  Status watched = events.Watch(signals->Get(), EPOLLIN, [&](uint32_t) {
    signalfd_siginfo info{};
    if (read(signals->Get(), &info, sizeof(info)) != sizeof(info)) return;
    if (std::exchange(is_ending, true)) return;
    Log(LogLevel::kInfo, "stopping");
    NotifySystemd("STOPPING=1");
    registry.Shutdown([&events] { events.Quit(); });
  });
  if (!watched) return watched;
  registry.Adopt();
  Log(LogLevel::kInfo,
      "listening on " + path + (*services ? ", for services on " + service_path : "") +
          (*metrics_port > 0 ? ", for metrics on port " + std::to_string(*metrics_port) : ""));
  NotifySystemd("READY=1");
  FeedWatchdog(events);
  TellStatus(events, [&registry] { return registry.Summary(); });
  events.Run();
  return Ok();
}

// Where that cannot be, it serves all the same.
void Filter() {
  if (const Status filtered = FilterSystemCalls(); !filtered) {
    Log(LogLevel::kWarning, "policies may use every system call: " + filtered.error().message);
  }
}

int Main(int argc, char** argv) {
  const std::span<char* const> arguments(argv, static_cast<size_t>(argc));
  const Result<Options> options = ParseOptions(arguments.subspan(argc > 0 ? 1 : 0));
  if (!options) {
    std::fprintf(stderr, "ppcd: %s\n", options.error().message.c_str());
    return kExitUsage;
  }
  if (!options->text.empty()) {
    std::printf("%s", options->text.c_str());
    return 0;
  }
  // Runners are told by it.
  setenv(kLogFormatVariable, options->log_format.c_str(), 1);
  SetLog("ppcd", options->is_verbose ? LogLevel::kDebug : LogLevel::kInfo);
  KeepLog(kLogLinesKept);
  if (options->is_filtered) Filter();
  const Status status = Serve(*options);
  if (status) return 0;
  Log(LogLevel::kError, status.error().message);
  return kExitFailed;
}

}  // namespace
}  // namespace ppc::control

int main(int argc, char** argv) {
  try {
    return ppc::control::Main(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "ppcd: internal error: %s\n", e.what());
    return 1;
  }
}
