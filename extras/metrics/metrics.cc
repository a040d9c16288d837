// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "daemon/base/json.h"
#include "extras/metrics/metrics_server.h"

namespace ppc::control {
namespace {

using Labels = std::vector<std::pair<const char*, std::string>>;

std::string Escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out;
}

std::string Number(double value) {
  std::array<char, 512> text{};
  const auto [end, ec] =
      std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  return ec == std::errc() ? std::string(text.data(), end) : "0";
}

double Value(const Json& object, const char* key) {
  const Json& value = JsonMember(object, key);
  return value.is_number() ? value.get<double>() : 0;
}

// One family: its samples must be adjacent, so they are gathered by directory first.
class Family {
 public:
  Family(MetricsFormat format, const char* name, const char* type, const char* unit,
         const char* help)
      : name_(name) {
    const bool is_open = format == MetricsFormat::kOpenMetrics;
    // The older format names a counter's family like its samples.
    const std::string known =
        name_ + (!is_open && std::string_view(type) == "counter" ? "_total" : "");
    text_ = "# TYPE " + known + " " + type + "\n";
    if (is_open && *unit != '\0') text_ += "# UNIT " + known + " " + unit + "\n";
    text_ += "# HELP " + known + " " + help + "\n";
  }
  // `ending`: "_total" for a counter, "_bucket" ...
  void Add(const char* ending, const Labels& labels, double value) {
    text_ += name_ + ending;
    if (!labels.empty()) {
      text_ += "{";
      for (const auto& [key, word] : labels) {
        if (text_.back() != '{') text_ += ",";
        text_ += std::string(key) + "=\"" + Escaped(word) + "\"";
      }
      text_ += "}";
    }
    text_ += " " + Number(value) + "\n";
  }
  const std::string& text() const { return text_; }

 private:
  const std::string name_;
  std::string text_;
};

struct Counter {
  const char* name;
  const char* unit;
  const char* help;
  const char* part;   // member of the runner's counters
  const char* label;  // nullptr: one sample
  std::initializer_list<const char*> keys;
};

const Counter kCounters[] = {
    {"ppc_events",
     "",
     "Page cache events that were sent to the runner, merged or lost.",
     "device",
     "result",
     {"events_queued", "events_coalesced", "events_lost"}},
    {"ppc_miss_bytes",
     "bytes",
     "Bytes that readers did not find in the page cache.",
     "events",
     nullptr,
     {"miss_bytes"}},
    {"ppc_load_bytes",
     "bytes",
     "Bytes that the policy asked to load, by result: loaded, or resident before.",
     "loader",
     "result",
     {"asked", "loaded", "resident", "failed"}},
    {"ppc_evict_bytes",
     "bytes",
     "Bytes that the policy asked to drop, by result: dropped, or why they stayed.",
     "evictor",
     "result",
     {"asked", "dropped", "mapped", "dirty", "locked", "busy"}},
    {"ppc_learnt_starts",
     "",
     "Starts that began with the exec of a program that had loaded a model before.",
     "learnt_starts",
     "result",
     {"guesses", "right", "wrong"}},
    {"ppc_learnt_start_wrong_bytes",
     "bytes",
     "Bytes that were submitted to be loaded for such starts that read no model.",
     "learnt_starts",
     nullptr,
     {"wrong_bytes"}},
};

std::string CounterText(MetricsFormat format, const Counter& counter, const Json& mounts) {
  Family family(format, counter.name, "counter", counter.unit, counter.help);
  for (const Json& mount : mounts) {
    const Json& runner = JsonMember(mount, "runner");
    if (runner.empty()) continue;
    for (const char* key : counter.keys) {
      Labels labels = {{"directory", JsonText(mount, "mount")}};
      if (counter.label != nullptr) labels.emplace_back(counter.label, key);
      family.Add("_total", labels, Value(JsonMember(runner, counter.part), key));
    }
  }
  return family.text();
}

std::string DirectoriesText(MetricsFormat format, const Json& mounts) {
  Family states(format, "ppc_directory", "gauge", "",
                "1 for each directory with a policy; failed ones are served by the kernel alone.");
  Family restarts(format, "ppc_runner_restarts", "counter", "",
                  "How often the runner was started again.");
  Family queued(format, "ppc_load_queued_bytes", "gauge", "bytes", "Bytes that wait to be loaded.");
  Family own(
      format, "ppc_cache_bytes", "gauge", "bytes",
      "Page cache that the runner has loaded and not dropped; what the kernel reclaimed since "
      "its last look is in it.");
  Family rate(format, "ppc_device_bytes_per_second", "gauge", "",
              "Rate of the disk while the runner loaded; 0: not known yet.");
  Family faults(format, "ppc_policy_faults", "counter", "", "Hooks of the policy that failed.");
  for (const Json& mount : mounts) {
    const Labels directory = {{"directory", JsonText(mount, "mount")}};
    states.Add("",
               {directory[0],
                {"policy", JsonText(mount, "policy")},
                {"backend", JsonText(mount, "backend")},
                {"state", JsonText(mount, "state")}},
               1);
    restarts.Add("_total", directory, Value(mount, "restarts"));
    const Json& runner = JsonMember(mount, "runner");
    if (runner.empty()) continue;
    queued.Add("", directory, Value(JsonMember(runner, "loader"), "queued"));
    own.Add("", directory, Value(runner, "own_cache"));
    rate.Add("", directory, Value(JsonMember(runner, "loader"), "device_mbps") * 1e6);
    faults.Add("_total", directory, Value(runner, "faults"));
  }
  return states.text() + restarts.text() + queued.text() + own.text() + rate.text() + faults.text();
}

std::string ServicesText(MetricsFormat format, const Json& mounts) {
  Family services(format, "ppc_service", "gauge", "", "1 for each service that was started.");
  Family memory(format, "ppc_service_memory_bytes", "gauge", "bytes",
                "Memory of the service: its limit, the part in use, by page cache, and left.");
  for (const Json& mount : mounts) {
    const std::string directory = JsonText(mount, "mount");
    for (const Json& service : JsonMember(mount, "services")) {
      services.Add("",
                   {{"directory", directory},
                    {"service", JsonText(service, "service_id")},
                    {"state", JsonText(service, "state")}},
                   1);
    }
    for (const Json& service : JsonMember(JsonMember(mount, "runner"), "services")) {
      const std::string id = JsonText(service, "service_id");
      if (id.empty()) continue;  // belongs to no service
      for (const char* kind : {"limit", "used", "cache", "room"}) {
        memory.Add("", {{"directory", directory}, {"service", id}, {"kind", kind}},
                   Value(JsonMember(service, "memory"), kind));
      }
    }
  }
  return services.text() + memory.text();
}

struct GuardCount {
  const char* kind;
  const char* key;  // member of the runner's object
};

constexpr GuardCount kGuardCounts[] = {{"regret", "regret_bytes"},
                                       {"churn", "churn_bytes"},
                                       {"waste", "waste_bytes"},
                                       {"vanished", "vanished_bytes"},
                                       {"displaced", "displaced_bytes"},
                                       {"refused_loads", "refused_load_bytes"},
                                       {"refused_drops", "refused_drop_bytes"},
                                       {"failing", "failing_bytes"}};

// Service "" stands for readers without a service.
std::string GuardText(MetricsFormat format, const Json& mounts) {
  Family states(
      format, "ppc_guard", "gauge", "",
      "1 for each service, with the state of the guard on its policy; open: withholds nothing.");
  Family counts(format, "ppc_guard_bytes", "counter", "bytes",
                "Bytes that the guard counted of each service: what became of drops and loads, and "
                "what it refused.");
  for (const Json& mount : mounts) {
    for (const Json& service : JsonMember(JsonMember(mount, "runner"), "services")) {
      const Json& guard = JsonMember(service, "guard");
      if (guard.empty()) continue;  // switched off
      Labels labels = {{"directory", JsonText(mount, "mount")},
                       {"service", JsonText(service, "service_id")},
                       {"state", JsonText(guard, "state")}};
      states.Add("", labels, 1);
      for (const GuardCount& count : kGuardCounts) {
        labels.back() = {"kind", count.kind};
        counts.Add("_total", labels, Value(guard, count.key));
      }
    }
  }
  return states.text() + counts.text();
}

std::string StartsText(MetricsFormat format, const StartTimes& starts) {
  Family family(format, "ppc_service_start_seconds", "histogram", "seconds",
                "From a service's start to its readiness, by how the policy treated the start.");
  for (const auto& [key, histogram] : starts.all()) {
    const Labels labels = {{"directory", key.first}, {"treatment", key.second}};
    uint64_t below = 0;
    for (size_t i = 0; i < histogram.counts.size(); ++i) {
      below += histogram.counts[i];
      Labels bucket = labels;
      bucket.emplace_back(
          "le", i < StartTimes::kBoundsS.size() ? Number(StartTimes::kBoundsS[i]) + ".0" : "+Inf");
      family.Add("_bucket", bucket, static_cast<double>(below));
    }
    family.Add("_count", labels, static_cast<double>(histogram.count));
    family.Add("_sum", labels, histogram.sum_s);
  }
  return family.text();
}

// Another process wrote `node`: malformed members become 0 or "".
std::string NodeText(MetricsFormat format, const Json& node) {
  Family memory(format, "ppc_node_memory_bytes", "gauge", "bytes",
                "Page cache that models may use on this machine, and the free part of it.");
  Family bytes(format, "ppc_model_bytes", "gauge", "bytes", "Size of the models of this machine.");
  Family resident(format, "ppc_model_resident_bytes", "gauge", "bytes", "Bytes of them in memory.");
  Family has(format, "ppc_model_has", "gauge", "", "1 if there is a template, or artifacts.");
  Family left(format, "ppc_start_left_bytes", "gauge", "bytes",
              "Start-ups in progress, and the bytes they still read; 0: not known.");
  Family rate(format, "ppc_node_disk_bytes_per_second", "gauge", "",
              "The disk's rate as other machines are told of it.");
  memory.Add("", {{"kind", "all"}}, Value(node, "memory_bytes"));
  memory.Add("", {{"kind", "free"}}, Value(node, "free_bytes"));
  for (const Json& model : JsonMember(node, "models")) {
    Labels labels = {{"directory", JsonText(model, "directory")},
                     {"model", JsonText(model, "model")}};
    bytes.Add("", labels, Value(model, "bytes"));
    resident.Add("", labels, Value(model, "resident"));
    labels.emplace_back("what", "");
    for (const char* what : {"template", "artifacts"}) {
      labels.back().second = what;
      has.Add("", labels, JsonMember(model, what) == true ? 1 : 0);
    }
  }
  for (const Json& start : JsonMember(node, "starts")) {
    left.Add(
        "",
        {{"directory", JsonText(start, "directory")}, {"service", JsonText(start, "service_id")}},
        Value(start, "left"));
  }
  for (const auto& [directory, value] : JsonMember(node, "disk_rates").items()) {
    if (value.is_number()) rate.Add("", {{"directory", directory}}, value.get<double>());
  }
  return memory.text() + bytes.text() + resident.text() + has.text() + left.text() + rate.text();
}

}  // namespace

void StartTimes::Add(const std::string& directory, const std::string& treatment, double seconds) {
  Histogram& histogram = all_[{directory, treatment}];
  size_t bucket = 0;
  while (bucket < kBoundsS.size() && seconds > kBoundsS[bucket]) ++bucket;
  ++histogram.counts[bucket];
  ++histogram.count;
  histogram.sum_s += seconds;
}

std::string MetricsText(const Json& status, const StartTimes& starts, MetricsFormat format,
                        const Json& node) {
  const Json& daemon = JsonMember(status, "daemon");
  const Json& mounts = JsonMember(status, "mounts");
  Family build(format, "ppc_build_info", "gauge", "", "1, with the version of ppcd.");
  build.Add("", {{"version", JsonText(daemon, "version")}}, 1);
  Family up(format, "ppc_up_seconds", "gauge", "seconds", "How long ppcd has been running.");
  up.Add("", {}, Value(daemon, "uptime_s"));
  std::string text = build.text() + up.text() + DirectoriesText(format, mounts);
  for (const Counter& counter : kCounters) text += CounterText(format, counter, mounts);
  text += ServicesText(format, mounts) + GuardText(format, mounts) + StartsText(format, starts);
  if (node.is_object()) text += NodeText(format, node);
  return format == MetricsFormat::kOpenMetrics ? text + "# EOF\n" : text;
}

const char* MetricsType(MetricsFormat format) {
  return format == MetricsFormat::kOpenMetrics
             ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
             : "text/plain; version=0.0.4; charset=utf-8";
}

}  // namespace ppc::control
