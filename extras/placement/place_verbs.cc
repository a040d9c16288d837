// SPDX-License-Identifier: Apache-2.0
// ppcctl node and ppcctl place: this machine's state, and on which node a service starts soonest.
#include <signal.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <optional>
#include <set>
#include <sstream>

#include "extras/placement/cluster.h"
#include "extras/placement/etcd_lease.h"
#include "extras/placement/include/ppc/place.h"
#include "extras/placement/node_look.h"
#include "tools/ppcctl/daemon_link.h"
#include "tools/ppcctl/environment.h"
#include "tools/ppcctl/extra.h"
#include "tools/ppcctl/output.h"
#include "tools/ppcctl/program_options.h"
#include "tools/ppcctl/spec.h"
#include "tools/ppcctl/text.h"
#include "tools/ppcctl/user_dirs.h"

namespace ppc::ctl {
namespace {

constexpr unsigned kNodeTimeoutMs = 5000;
constexpr uint32_t kEtcdTimeoutMs = 3000;
constexpr uint32_t kLeaseS = 10;
constexpr int64_t kUsualIntervalS = 3;
constexpr int64_t kLeastFreshS = 15;
constexpr int kPauses = 9;  // pauses of a look's duration before the next look

std::string EtcdGiven(const Args& args, const char* option) {
  return args.Get(option, FromEnvironment("PPC_ETCD"));
}

// True: a signal came within the pause.
bool EndsWithin(const sigset_t& signals, std::chrono::nanoseconds pause) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(pause);
  const timespec wait{.tv_sec = static_cast<time_t>(seconds.count()),
                      .tv_nsec = static_cast<long>((pause - seconds).count())};
  for (;;) {
    if (sigtimedwait(&signals, nullptr, &wait) > 0) return true;
    if (errno != EINTR) return false;
  }
}

// ppcd shows the state in its metrics for a while.
void TellMetrics(DaemonLink& link, const NodeState& node, std::chrono::nanoseconds pause) {
  static bool was_told = true;
  const int64_t pause_s = std::chrono::ceil<std::chrono::seconds>(pause).count();
  const Result<Json> answer = link.Ask({{"op", "node_state"},
                                        {"node", ToJson(node)},
                                        {"for_s", std::max(kLeastFreshS, 3 * pause_s)}});
  const bool is_told = answer.ok();
  if (!is_told && was_told)
    Complain("warning: ppcd's metrics do not show this node: " + answer.error().message);
  was_told = is_told;
}

// place: where to publish it too; nullptr: nowhere.
int Publish(NodeLook& look, const EtcdPlace* place, const std::string& key, int64_t interval_s) {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, number);
  sigprocmask(SIG_BLOCK, &signals, nullptr);  // before there are threads
  std::optional<EtcdLease> lease;
  if (place != nullptr)
    lease.emplace(EtcdLease::Options{.address = place->address, .lease_s = kLeaseS});
  bool was_there = true;
  std::optional<NodeState> told;
  std::chrono::nanoseconds pause{};
  do {
    const auto began = std::chrono::steady_clock::now();
    DaemonLink link(kNodeTimeoutMs);
    Result<NodeState> node = look.Take(link);
    // Without ppcd a start here is no faster than elsewhere: do not offer the node.
    if (!node) {
      if (lease) lease->Set({});
      if (was_there) Complain("warning: this node is not offered: " + node.error().message);
      told.reset();
    } else {
      TellMetrics(link, *node,
                  std::max<std::chrono::nanoseconds>(std::chrono::seconds(interval_s), pause));
      const bool is_news = !told || IsNews(*told, *node);
      if (lease && is_news) lease->Set({{key, DumpJson(ToJson(*node))}});
      if (is_news) told = *std::move(node);
    }
    was_there = told.has_value();
    // Looking at terabytes takes long: use at most a tenth of a CPU.
    pause = std::max<std::chrono::nanoseconds>(
        std::chrono::seconds(interval_s), kPauses * (std::chrono::steady_clock::now() - began));
  } while (!EndsWithin(signals, pause));
  return kExitOk;
}

void PrintNode(const NodeState& node) {
  std::vector<std::vector<std::string>> rows = {
      {"MODEL", "BYTES", "IN MEMORY", "TEMPLATE", "ARTIFACTS", "PATH"}};
  for (const ModelState& model : node.models) {
    rows.push_back({model.name, HumanBytes(model.bytes), HumanBytes(model.resident),
                    model.has_template ? "yes" : "no", model.has_artifacts ? "yes" : "no",
                    model.path});
  }
  std::printf("%s: %s of page cache, %s of it free, %zu start-ups in progress\n%s",
              node.name.c_str(), HumanBytes(node.memory).c_str(), HumanBytes(node.free).c_str(),
              node.starts.size(), Table(rows).c_str());
}

std::string LastKnownFile() {
  const std::string templates = TemplateDir();
  const size_t slash = templates.rfind('/', templates.find_last_not_of('/'));
  return slash == std::string::npos ? "" : templates.substr(0, slash) + "/nodes.json";
}

// The cluster from etcd or, if etcd does not answer, as last known.
Result<Cluster> ClusterOrLast(const EtcdPlace& place, const std::string& last) {
  Result<Cluster> cluster = ClusterInEtcd(place, kEtcdTimeoutMs);
  if (cluster) {
    const Status kept = last.empty() ? Ok() : Remember(last, *cluster);
    if (!kept) Complain("warning: not remembered: " + kept.error().message);
    return cluster;
  }
  Result<Cluster> known = Recall(last, static_cast<uint64_t>(std::time(nullptr)));
  if (!known) {
    return Error{cluster.error().code,
                 cluster.error().message + "; and nothing is known from before"};
  }
  known->etcd_error = cluster.error().message;
  Complain("warning: " + known->etcd_error + "; using what was known " +
           HumanSeconds(static_cast<double>(known->age_s)) + " ago");
  return known;
}

// The nodes in --nodes, in that order; an unknown node counts as gone.
std::vector<NodeState> Wanted(const Args& args, const std::vector<NodeState>& all,
                              std::set<std::string>* gone) {
  if (!args.Has("--nodes")) return all;
  std::vector<NodeState> nodes;
  std::istringstream list(args.Get("--nodes"));
  for (std::string name; std::getline(list, name, ',');) {
    const auto it = std::find_if(all.begin(), all.end(),
                                 [&name](const NodeState& node) { return node.name == name; });
    if (it == all.end()) gone->insert(name);
    nodes.push_back(it == all.end() ? NodeState{.name = name} : *it);
  }
  return nodes;
}

struct Choice {
  std::vector<NodeState> nodes;
  std::vector<ppc_place_result> results;
  long best = -1;  // index, or a negative errno
};

Choice Choose(const std::string& model, std::vector<NodeState> nodes,
              const std::set<std::string>& gone) {
  Choice choice{.nodes = std::move(nodes)};
  std::vector<ppc_place_node> asked;
  for (const NodeState& node : choice.nodes) {
    asked.push_back(PlaceNodeOf(node, model));
    if (gone.contains(node.name)) asked.back().flags |= PPC_PLACE_GONE;
  }
  choice.results.resize(asked.size());
  choice.best =
      asked.empty() ? -ENOENT : ppc_place_best(asked.data(), asked.size(), choice.results.data());
  return choice;
}

Json ChoiceJson(const Choice& choice, const Cluster& cluster, const std::string& model) {
  Json nodes = Json::array();
  for (size_t i = 0; i < choice.nodes.size(); ++i) {
    const ppc_place_result& result = choice.results[i];
    const bool is_out = (result.reasons & PPC_PLACE_WHY_OUT) != 0;
    nodes.push_back({{"node", choice.nodes[i].name},
                     {"start_s", is_out ? Json(nullptr) : Json(result.start_s)},
                     {"score_s", is_out ? Json(nullptr) : Json(result.score_s)},
                     {"why", ReasonText(result.reasons)}});
  }
  Json out{{"model", model},
           {"node", choice.best < 0 ? Json(nullptr)
                                    : Json(choice.nodes[static_cast<size_t>(choice.best)].name)},
           {"source", cluster.source},
           {"nodes", std::move(nodes)}};
  if (!cluster.etcd_error.empty()) out["age_s"] = cluster.age_s;
  return out;
}

void PrintChoice(const Choice& choice, bool explain) {
  if (!explain) {
    if (choice.best >= 0)
      std::printf("%s\n", choice.nodes[static_cast<size_t>(choice.best)].name.c_str());
    return;
  }
  std::vector<std::vector<std::string>> rows = {{"", "NODE", "START", "SCORE", "WHY"}};
  for (size_t i = 0; i < choice.nodes.size(); ++i) {
    const ppc_place_result& result = choice.results[i];
    const bool is_out = (result.reasons & PPC_PLACE_WHY_OUT) != 0;
    rows.push_back({choice.best == static_cast<long>(i) ? "*" : "", choice.nodes[i].name,
                    is_out ? "-" : HumanSeconds(result.start_s),
                    is_out ? "-" : HumanSeconds(result.score_s), ReasonText(result.reasons)});
  }
  std::printf("%s", Table(rows).c_str());
}

}  // namespace

static int ShowNode(const Args& args) {
  const std::string name = args.Get("--name", HostName());
  NodeLook look(name, TemplateDir(), ArtifactDir());
  if (args.Has("--publish") || args.Has("--metrics")) {
    const Result<int64_t> interval =
        ReadWhole("--interval", args.Get("--interval", std::to_string(kUsualIntervalS)), 1);
    if (!interval) return WrongUsage(interval.error().message);
    if (!args.Has("--publish")) return Publish(look, nullptr, "", *interval);
    const Result<EtcdPlace> place = ReadEtcdPlace(args.Get("--publish"));
    if (!place) return WrongUsage("--publish " + place.error().message);
    const Result<std::string> key = NodeKey(*place, name);
    if (!key) return WrongUsage("--name: " + key.error().message);
    return Publish(look, &*place, *key, *interval);
  }
  DaemonLink link(kNodeTimeoutMs);
  const Result<NodeState> node = look.Take(link);
  if (!node) return link.Report(node.error());
  if (WantsJson()) {
    PrintJson(ToJson(*node));
  } else {
    PrintNode(*node);
  }
  return kExitOk;
}

static int PlaceModel(const Args& args) {
  const std::string model = args.Get("--model");
  if (model.empty()) return WrongUsage("which model? Give --model NAME");
  const std::string url = EtcdGiven(args, "--etcd");
  if (url.empty() == args.All("--from").empty())
    return WrongUsage("where are the nodes known? Give --etcd URL or --from FILE, one of them");
  Result<Cluster> cluster = Error{EINVAL, ""};
  if (url.empty()) {
    cluster = ClusterInFiles(args.All("--from"));
  } else {
    const Result<EtcdPlace> place = ReadEtcdPlace(url);
    if (!place) return WrongUsage("--etcd " + place.error().message);
    cluster = ClusterOrLast(*place, args.Get("--last", LastKnownFile()));
  }
  if (!cluster) return Failed(cluster.error());
  for (const std::string& line : cluster->refused) Complain("warning: left out: " + line);
  std::set<std::string> gone;
  std::vector<NodeState> wanted = Wanted(args, cluster->nodes, &gone);
  const Choice choice = Choose(model, std::move(wanted), gone);
  if (WantsJson()) {
    PrintJson(ChoiceJson(choice, *cluster, model));
  } else {
    PrintChoice(choice, args.Has("--explain"));
  }
  if (choice.best >= 0) return kExitOk;
  Complain("no node of " + std::to_string(choice.nodes.size()) + " can start '" + model + "'");
  return kExitFailed;
}

namespace {

constexpr std::array kNodeVerbOptions = {
    Option{"--name", "NODE", "name of this machine for other machines; default: its host name"},
    Option{"--publish", "URL", "keep it in the etcd at http://HOST:PORT[/PREFIX] until SIGTERM"},
    Option{"--metrics", nullptr, "keep it in ppcd's metrics until SIGTERM; --publish does so, too"},
    Option{"--interval", "SECONDS", "between two looks (default 3), with either"}};
constexpr std::array kPlaceOptions = {
    Option{"--model", "NAME", "as `ppcctl node` lists it, or its path"},
    Option{"--nodes", "LIST", "these alone, e.g. a,b,c; default: all that are known"},
    Option{"--etcd", "URL", "where they publish themselves; default: $PPC_ETCD"},
    Option{"--from", "FILE", "output of `ppcctl node --json` on one of them (repeat)"},
    Option{"--last", "FILE", "keeps the last state from etcd, for when it is away"},
    Option{"--explain", nullptr, "print all nodes, and why each has its score"}};

const std::array kPlacementExtraVerbs = {
    cli::Verb{
        "node", "Nodes", "",
        "Show which models this machine has, and how much of each is in memory.\n"
        "Also the free page cache, the disk's rate and start-ups in progress.  With --publish it\n"
        "stays and keeps this in etcd, under a lease of 10 seconds, and in ppcd's metrics.  While\n"
        "ppcd is down, or once this machine is, the key goes.",
        kNodeVerbOptions, ShowNode},
    cli::Verb{
        "place", "Nodes", "",
        "Print the node on which a service of a model starts soonest.\n"
        "By what the nodes publish, or by files.  While etcd is away by what it said last, and a\n"
        "warning.  Exit status 1 if no node has the model.",
        kPlaceOptions, PlaceModel},
};

}  // namespace

Extra PlacementExtra() { return {.verbs = kPlacementExtraVerbs}; }

}  // namespace ppc::ctl
