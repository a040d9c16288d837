// SPDX-License-Identifier: Apache-2.0
// ppcctl watch-xllm: passes xLLM instances' states in etcd to ppcd, so that neither the engine nor
// its service needs to know of ppcd.
#include <signal.h>

#include <array>
#include <cerrno>
#include <ctime>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/base/clock.h"
#include "daemon/machine/proc_info.h"
#include "extras/etcd/etcd.h"
#include "extras/xllm/instance_service.h"
#include "extras/xllm/registrations.h"
#include "tools/ppcctl/daemon_link.h"
#include "tools/ppcctl/environment.h"
#include "tools/ppcctl/extra.h"
#include "tools/ppcctl/program_options.h"
#include "tools/ppcctl/spec.h"

namespace ppc::ctl {
namespace {

using xllm::Changes;
using xllm::Instance;
using xllm::Service;

constexpr uint32_t kXllmAskMs = 2000;
constexpr unsigned kXllmTellMs = 5000;

class Sidecar {
 public:
  explicit Sidecar(std::map<std::string, std::string> told) : told_(std::move(told)) {}

  void Take(const Changes& changes) {
    for (const std::string& line : changes.refused) Complain("warning: " + line);
    for (const Instance& one : changes.expired) {
      waiting_.erase(one.name);
      Expired(one);
    }
    for (const Instance& one : changes.deregistered) {
      waiting_.erase(one.name);
      if (ours_.erase(one.name) != 0) Complain(one.name + " has deregistered");
    }
    for (const Instance& one : changes.appeared) waiting_.insert_or_assign(one.name, one);
    std::erase_if(waiting_, [this](const auto& entry) { return Appeared(entry.second); });
  }

 private:
  struct Ours {
    std::vector<Service> services;
    int pid = 0;  // 0: not found
    uint64_t start_ns = 0;
  };

  static Result<Json> Status() {
    DaemonLink link(kXllmTellMs);
    return link.Ask({{"op", "status"}});
  }

  // True: done.
  static bool Tell(const std::string& name, Json request) {
    DaemonLink link(kXllmTellMs);
    const Result<Json> answer = link.Ask(request);
    if (answer) return true;
    Complain("warning: " + name + ": " + request["op"].get<std::string>() + ": " +
             answer.error().message);
    return false;
  }

  // xLLM registers after loading its model.  False: ppcd is away.
  bool Appeared(const Instance& one) {
    ours_.erase(one.name);
    const auto named = told_.find(one.name);
    std::optional<uint16_t> port = xllm::LocalPort(one.name);
    if (!port) port = xllm::LocalPort(one.rpc_address);
    if (!port && named == told_.end()) return true;  // on another machine
    Ours ours;
    if (port) ours.pid = xllm::ListenerOf(roots_, *port);
    if (ours.pid != 0) ours.start_ns = ProcessStartNs(roots_, ours.pid).value_or(0);
    const Result<Json> status = Status();
    if (!status) {
      if (!std::exchange(is_away_, true))
        Complain("warning: ppcd is told later of " + one.name + ": " + status.error().message);
      return false;
    }
    is_away_ = false;
    if (named != told_.end()) {
      ours.services = xllm::ServicesNamed(*status, named->second);
    } else if (ours.pid != 0) {
      ours.services = xllm::ServicesOf(roots_, *status, ours.pid);
    }
    if (ours.services.empty()) {
      Complain("warning: " + one.name + ": no service of ppcd's " +
               (named != told_.end() ? "is called " + named->second
                : ours.pid != 0      ? "has process " + std::to_string(ours.pid)
                                     : "listens there; give --instance " + one.name + "=ID"));
      return true;
    }
    for (const Service& service : ours.services) {
      if (ours.pid != 0) Bind(one.name, service, ours.pid);
      if (Tell(one.name,
               {{"op", "service_ready"}, {"mount", service.mount}, {"service_id", service.id}}))
        Complain(one.name + " is ready: service " + service.id + " on " + service.mount);
    }
    ours_[one.name] = std::move(ours);
    return true;
  }

  // The registering process is the first of the instance's workers.
  static void Bind(const std::string& name, const Service& service, int pid) {
    (void)Tell(name,
               {{"op", "policy"},
                {"mount", service.mount},
                {"message",
                 {{"op", "bind_pid"}, {"service_id", service.id}, {"pid", pid}, {"worker", 0}}}});
  }

  void Expired(const Instance& one) {
    auto node = ours_.extract(one.name);
    if (node.empty()) return;
    const Ours& ours = node.mapped();
    if (ours.pid != 0 && IsSameProcess(roots_, ours.pid, ours.start_ns)) {
      Complain("warning: " + one.name + " has lost its lease, but process " +
               std::to_string(ours.pid) + " lives; nothing is told");
      ours_.insert(std::move(node));  // it will register again
      return;
    }
    for (const Service& service : ours.services) {
      if (Tell(one.name,
               {{"op", "service_failed"}, {"mount", service.mount}, {"service_id", service.id}}))
        Complain(one.name + " has died: service " + service.id + " on " + service.mount);
    }
  }

  const SysRoots roots_ = RootsFromEnvironment();
  const std::map<std::string, std::string> told_;  // instance, service ID
  std::map<std::string, Ours> ours_;               // by instance
  std::map<std::string, Instance> waiting_;        // until ppcd answers
  bool is_away_ = false;                           // ppcd
};

Result<std::map<std::string, std::string>> ReadInstances(const Args& args) {
  std::map<std::string, std::string> told;
  for (const std::string& text : args.All("--instance")) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
      return Error{EINVAL, "--instance '" + text + "' is not IP:PORT=SERVICE_ID"};
    told[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return told;
}

}  // namespace

static int WatchXllm(const Args& args) {
  const std::string url = args.Get("--etcd", FromEnvironment("PPC_ETCD"));
  const std::optional<EtcdPlace> place = SplitEtcdUrl(url, "/");
  if (!place) return WrongUsage("--etcd '" + url + "': must be http://HOST:PORT");
  const Result<int64_t> interval = ReadWhole("--interval", args.Get("--interval", "1"), 1);
  if (!interval) return WrongUsage(interval.error().message);
  auto told = ReadInstances(args);
  if (!told) return WrongUsage(told.error().message);
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, number);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  xllm::Registrations registrations(
      [&place](const std::string& path, const Json& request) {
        return AskEtcd(place->address, path, request, kXllmAskMs);
      },
      args.Get("--namespace"));
  Sidecar sidecar(*std::move(told));
  bool is_away = false;
  const timespec pause{.tv_sec = static_cast<time_t>(*interval), .tv_nsec = 0};
  int number = 0;
  do {
    const Result<Changes> changes = registrations.Look(MonotonicNs());
    if (changes) {
      if (std::exchange(is_away, false)) Complain("etcd answers again");
      sidecar.Take(*changes);
    } else if (!std::exchange(is_away, true)) {
      Complain("warning: etcd is away, " + std::to_string(registrations.size()) +
               " instances are taken for what they were: " + changes.error().message);
    }
    do number = sigtimedwait(&signals, nullptr, &pause);
    while (number < 0 && errno == EINTR);
  } while (number < 0);
  return kExitOk;
}

namespace {

constexpr std::array kWatchXllmOptions = {
    Option{"--etcd", "URL", "where they register, http://HOST:PORT; default: $PPC_ETCD"},
    Option{"--namespace", "NAME", "value of xLLM's --etcd_namespace"},
    Option{"--instance", "IP:PORT=ID", "the service of that instance (repeat)"},
    Option{"--interval", "SECONDS", "between two looks (default 1)"}};

const std::array kXllmExtraVerbs = {
    cli::Verb{
        "watch-xllm", "Nodes", "",
        "Tell ppcd what the xLLM instances of this machine say of themselves in etcd.\n"
        "An instance registers when it is ready, and its service is told so; one whose lease\n"
        "expires has died, and its service is told that it has failed.  Whose service it is, the\n"
        "process says that listens at its address.  Runs until SIGTERM; root's.",
        kWatchXllmOptions, WatchXllm},
};

}  // namespace

Extra XllmExtra() { return {.verbs = kXllmExtraVerbs, .environment = "PPC_ETCD is --etcd."}; }

}  // namespace ppc::ctl
