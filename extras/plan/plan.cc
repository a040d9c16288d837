// SPDX-License-Identifier: Apache-2.0
// ppcctl plan: what `run` would do, and how fast a start can be at best.  Changes nothing: no
// registration, no service, no daemon, no byte read of the model.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <optional>
#include <string_view>
#include <utility>

#include "daemon/machine/cgroup.h"
#include "daemon/machine/host_memory.h"
#include "daemon/machine/proc_info.h"
#include "daemon/wire/service_id.h"
#include "extras/plan/needed_bytes.h"
#include "policies/maio/template/template.h"
#include "tools/ppcctl/command_words.h"
#include "tools/ppcctl/daemon_link.h"
#include "tools/ppcctl/extra.h"
#include "tools/ppcctl/output.h"
#include "tools/ppcctl/program_options.h"
#include "tools/ppcctl/run_target.h"
#include "tools/ppcctl/text.h"
#include "tools/ppcctl/user_dirs.h"

namespace ppc::ctl {
namespace {

constexpr unsigned kAskTimeoutMs = 5000;
constexpr double kBytesPerMb = 1e6;
constexpr const char* kUsualPolicy = "maio";

struct Daemon {
  Json mounts = Json::array();
  std::string template_dir;
  bool runs = false;
  bool is_off = false;
  std::string why;  // it does not
};

Daemon LookAtDaemon(unsigned timeout_ms) {
  DaemonLink link(timeout_ms);
  const Result<Json> status = link.Ask({{"op", "status"}});
  Daemon daemon;
  daemon.template_dir = TemplateDir();
  daemon.runs = status.ok();
  if (!status) {
    daemon.why = status.error().message;
    return daemon;
  }
  daemon.mounts = status->value("mounts", Json::array());
  const Json about = status->value("daemon", Json::object());
  daemon.is_off = about.value("off", false);
  daemon.template_dir = about.value("template_dir", daemon.template_dir);
  return daemon;
}

// A number of seconds or MB/s; nothing where the option is not given.
Result<std::optional<double>> ReadNumber(const Args& args, const char* option) {
  if (!args.Has(option)) return std::optional<double>();
  const std::string text = args.Get(option);
  double number = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (ec == std::errc() && end == text.data() + text.size() && number >= 0 && number < 1e9) {
    return std::optional<double>(number);
  }
  return Error{EINVAL, std::string(option) + " '" + text + "' is not a number of 0 or more"};
}

// What the runners' loads have measured here; 0 = nothing yet.
double MeasuredRate(const Json& mounts, const std::string& directory) {
  for (const Json& mount : mounts) {
    if (mount.value("mount", "") != directory) continue;
    const Json loader = mount.value("runner", Json::object()).value("loader", Json::object());
    return loader.value("device_mbps", 0.0);
  }
  return 0;
}

// Page cache that the command's cgroup leaves: the machine's memory where it has no limit.
uint64_t CacheRoom(const Args& args) {
  const SysRoots roots = RootsFromEnvironment();
  uint64_t room = UINT64_MAX;
  if (const Result<HostMemory> host = ReadHostMemory(roots, {})) room = host->available;
  const std::string path =
      args.Get("--cgroup", ProcessCgroup(roots, static_cast<int>(getpid())).value_or(""));
  const Result<Cgroup> group = Cgroup::Open(path, roots);
  const std::optional<MemoryReading> limit =
      group ? group->Read(/*share=*/1, /*with_cache=*/true) : std::nullopt;
  if (!limit) return room;
  const uint64_t held = limit->used - std::min(limit->cache, limit->used);
  return std::min(room, limit->limit - std::min(held, limit->limit));
}

// From the start to the first read of the model by a worker, as it was recorded.
double RecordedInit(const maio::Template& t) {
  std::optional<uint64_t> first_ms;
  for (const maio::TemplateGroup& group : t.groups) {
    if (group.id == maio::kCommonGroup || group.extents.empty()) continue;
    first_ms = std::min(first_ms.value_or(group.first_ms), group.first_ms);
  }
  return static_cast<double>(first_ms.value_or(0)) / 1000;
}

bool HasHeaders(const std::string& model) {
  const std::vector<std::string> files = ModelFiles(model);
  return std::ranges::any_of(files, maio::IsTabled);
}

Json DescribeTemplate(const maio::Template& t, const std::string& file) {
  const bool is_provisional = (t.flags & maio::kProvisional) != 0;
  return {{"file", file},
          {"state", (t.flags & maio::kSynthetic) != 0 ? "synthetic"
                    : is_provisional                  ? "provisional"
                                                      : "complete"},
          {"bytes", maio::DistinctBytes(t)},
          {"groups", t.groups.size()}};
}

struct BoundOptions {
  std::optional<double> disk_mbps;
  std::optional<double> init_s;
  std::optional<double> hot_s;
};

Result<BoundOptions> ReadBoundOptions(const Args& args) {
  BoundOptions options;
  for (const auto& [option, out] :
       {std::pair{"--disk-mbps", &options.disk_mbps}, std::pair{"--init", &options.init_s},
        std::pair{"--hot-load", &options.hot_s}}) {
    const Result<std::optional<double>> number = ReadNumber(args, option);
    if (!number) return number.error();
    *out = *number;
  }
  return options;
}

Json DescribeBound(const StartCost& cost) {
  Json out{{"disk_mbps", cost.disk_rate / kBytesPerMb},
           {"init_s", cost.init_s},
           {"hot_load_s", cost.hot_load_s},
           {"cache_bytes", cost.cache_bytes},
           {"seconds", nullptr}};
  if (cost.disk_rate <= 0) return out;
  const StartBound bound = BoundOf(cost);
  out["seconds"] = bound.seconds;
  out["constrained"] = bound.is_constrained;
  return out;
}

void PrintPlan(const Json& plan) {
  std::vector<std::vector<std::string>> rows;
  const auto say = [&rows](const char* name, std::string text) {
    rows.push_back({name, std::move(text)});
  };
  const Json& daemon = plan["daemon"];
  const std::string directory = plan.value("directory", "");
  say("model", plan.value("model", "") + " (" + plan.value("found_by", "") + ")");
  say("daemon", daemon.value("runs", false)
                    ? "one runs and is used"
                    : "one would be started for the command: " + daemon.value("why", ""));
  say("directory", directory +
                       (plan.value("registered", false) ? ": has policy " : ": would get ") +
                       plan.value("policy", ""));
  say("service", plan.value("service_id", ""));
  say("template", plan["template"].is_null()
                      ? "none"
                      : plan["template"].value("state", "") + ", " +
                            HumanBytes(plan["template"].value("bytes", uint64_t{0})));
  say("this start", plan.value("next_start", ""));
  const Json& bytes = plan["bytes"];
  say("bytes", HumanBytes(bytes.value("needed", uint64_t{0})) + " needed, " +
                   HumanBytes(bytes.value("resident", uint64_t{0})) + " in memory, " +
                   HumanBytes(bytes.value("from_disk", uint64_t{0})) + " from disk");
  const Json& bound = plan["bound"];
  say("page cache", "at most " + HumanBytes(bound.value("cache_bytes", uint64_t{0})));
  if (bound["seconds"].is_null()) {
    say("at best", "unknown: nothing has measured the disk yet; give --disk-mbps");
  } else {
    say("at best", HumanSeconds(bound.value("seconds", 0.0)) + ", at " +
                       std::to_string(static_cast<uint64_t>(bound.value("disk_mbps", 0.0))) +
                       " MB/s, " + HumanSeconds(bound.value("init_s", 0.0)) + " before the load, " +
                       HumanSeconds(bound.value("hot_load_s", 0.0)) + " of load when cached" +
                       (bound.value("constrained", false) ? "; memory does not hold it" : ""));
  }
  std::printf("%s", Table(rows).c_str());
}

Result<std::string> IdOf(const ServiceRequest& request) {
  if (request.spec.contains("service_id")) return request.spec.value("service_id", "");
  const Result<control::ServiceName> name = control::MakeServiceName(request.spec["params"]);
  if (!name) return name.error();
  return name->id;
}

std::string NextStart(const Daemon& daemon, const Place& place, const ServiceRequest& request,
                      const maio::Template* known, const Target& target) {
  const std::string& has = place.policy;
  const std::string& asked = request.policy;
  if (daemon.is_off) return "runs natively: PPC is off; ppcctl on";
  if (!has.empty() && !asked.empty() && has != asked)
    return "runs natively: " + place.directory + " has another policy than --policy " + asked;
  const std::string policy = has.empty() ? asked : has;
  if (!policy.empty() && policy != kUsualPolicy) return "is the policy " + policy + "'s";
  if (known != nullptr && (known->flags & maio::kProvisional) != 0)
    return "follows the template and is recorded anew";
  if (known != nullptr) return "follows the template";
  return HasHeaders(target.model) ? "follows the model's headers and is recorded"
                                  : "is recorded; the next one is accelerated";
}

const char* FoundBy(const Args& args, const Target& target) {
  if (!args.operands.empty()) return "as told";
  return target.is_in_words ? "named by the command" : "opened by the command's last start";
}

}  // namespace

static int Plan(const Args& args) {
  Result<ServiceRequest> asked = ReadRequest(args, kAskTimeoutMs);
  if (!asked) return WrongUsage(asked.error().message);
  const Result<BoundOptions> options = ReadBoundOptions(args);
  if (!options) return WrongUsage(options.error().message);
  const std::vector<std::string> words = WordsOf(args.command);
  const Result<Target> target = FindTarget(args, words);
  if (!target) return Failed(target.error());
  const Result<ServiceRequest> request = RequestFor(*std::move(asked), *target, words);
  if (!request) return Failed(request.error());
  if (access(target->model.c_str(), F_OK) != 0) return Failed(PosixError(target->model, errno));
  const Result<std::string> id = IdOf(*request);
  if (!id) return Failed(id.error());
  const Daemon daemon = LookAtDaemon(request->timeout_ms);
  const Place place = FindPlace(daemon.mounts, *request);
  const bool is_registered = !place.policy.empty();
  const std::string wanted = request->policy.empty() ? kUsualPolicy : request->policy;

  maio::Template known;
  std::string problem;
  const std::string file = maio::TemplatePath(daemon.template_dir, *id);
  const bool has_template = !file.empty() && maio::Load(file, &known, &problem) == 0;
  const NeededBytes needed =
      has_template ? NeededOfTemplate(known, place.directory) : NeededOfModel(target->model);
  const double measured = MeasuredRate(daemon.mounts, place.directory);
  const StartCost cost{.bytes = needed.total - std::min(needed.resident, needed.total),
                       .disk_rate = options->disk_mbps.value_or(measured) * kBytesPerMb,
                       .init_s = options->init_s.value_or(has_template ? RecordedInit(known) : 0),
                       .hot_load_s = options->hot_s.value_or(0),
                       .cache_bytes = CacheRoom(args)};
  Json plan{
      {"model", target->model},
      {"found_by", FoundBy(args, *target)},
      {"directory", place.directory},
      {"registered", is_registered},
      {"policy", is_registered ? place.policy : wanted},
      {"service_id", *id},
      {"daemon", {{"runs", daemon.runs}}},
      {"template", nullptr},
      {"next_start", NextStart(daemon, place, *request, has_template ? &known : nullptr, *target)},
      {"bytes",
       {{"needed", needed.total},
        {"resident", needed.resident},
        {"from_disk", cost.bytes},
        {"files", needed.files},
        {"unreadable_files", needed.unreadable}}},
      {"bound", DescribeBound(cost)}};
  if (!daemon.runs) plan["daemon"]["why"] = daemon.why;
  if (has_template) plan["template"] = DescribeTemplate(known, file);
  if (request->spec.contains("params")) plan["params"] = request->spec["params"];
  if (WantsJson()) {
    PrintJson(plan);
  } else {
    PrintPlan(plan);
  }
  return kExitOk;
}

namespace {

constexpr std::array kPlanOptions = {
    kId,
    kParam,
    kParams,
    kXpu,
    kWorkers,
    kCgroup,
    Option{"--policy", "POLICY", "of the directory, if it has none yet (default maio)"},
    Option{"--config", "JSON|@FILE", "the policy's configuration"},
    Option{"--disk-mbps", "MB/S", "what the disk gives; default: what loads have measured here"},
    Option{"--init", "SECONDS", "before the load begins; default: as it was recorded"},
    Option{"--hot-load", "SECONDS", "the load with everything cached; default 0"},
    kTimeout};

const std::array kPlanVerbs = {
    cli::Verb{
        "plan", "Services", "[DIR] [-- CMD [ARG]...]",
        "Show what run would do, and how fast a start can be at best.\n"
        "Nothing is changed, no daemon started, nothing of the model read.  The bound is that of\n"
        "the bytes to be read, the disk's rate and memory, whoever loads: with memory enough\n"
        "max(init + hot load, bytes / rate), else init + max(hot load, (bytes - what is read\n"
        "during init) / rate).",
        kPlanOptions, Plan},
};

}  // namespace

Extra PlanExtra() { return {.verbs = kPlanVerbs, .after = "run"}; }

}  // namespace ppc::ctl
