// SPDX-License-Identifier: Apache-2.0
#include "tools/ppcctl/report/parts.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>
#include <vector>

#include "tools/ppcctl/text.h"

namespace ppc::ctl {
namespace {

// A reader counts if it was busy for this share of the busiest one's time.
constexpr double kLeastBusy = 0.2;

double Seconds(uint64_t ns) { return static_cast<double>(ns) / 1e9; }

// When the model began to be read; the begin where nobody knows.
uint64_t LoadBegin(const StartLog& log) {
  uint64_t most = 0;
  uint64_t followed_ns = 0;  // the last question that found nothing read of a template
  for (const Progress& progress : log.progress) {
    most = std::max(most, progress.bytes);
    if (progress.total > 0 && progress.bytes == 0) followed_ns = progress.time_ns;
  }
  // Read between two questions, the last of which found it ready.
  if (most == 0) return followed_ns == 0 ? log.begin_ns : std::min(followed_ns, log.end_ns);
  uint64_t before = log.begin_ns;
  for (const Progress& progress : log.progress) {
    if (progress.bytes <= most / 50) {
      before = progress.time_ns;
      continue;
    }
    // At the pace of the rest, but after the question before.
    const double rest = static_cast<double>(std::max<uint64_t>(most - progress.bytes, 1));
    const double rest_ns = Seconds(log.end_ns - std::min(progress.time_ns, log.end_ns)) * 1e9;
    const double since_ns = static_cast<double>(progress.bytes) / rest * rest_ns;
    const auto most_ns = static_cast<double>(progress.time_ns - before);
    return progress.time_ns - static_cast<uint64_t>(std::min(since_ns, most_ns));
  }
  return log.begin_ns;
}

// A process during the load.
struct OneReader {
  double disk_s = 0;
  double runs_s = 0;
  double sleeps_s = 0;
  uint64_t first_user_ns = 0, last_user_ns = 0;
  uint64_t first_kernel_ns = 0, last_kernel_ns = 0;
  uint64_t first_wait_ns = 0, last_wait_ns = 0;
  bool is_seen = false;

  double busy_s() const { return disk_s + runs_s; }
};

std::map<pid_t, OneReader> ReadersOf(const StartLog& log, uint64_t begin_ns) {
  std::map<pid_t, OneReader> readers;
  for (size_t i = 0; i < log.samples.size(); ++i) {
    const Sample& sample = log.samples[i];
    if (sample.time_ns < begin_ns) continue;
    const uint64_t until = i + 1 < log.samples.size() ? log.samples[i + 1].time_ns
                                                      : std::max(log.end_ns, sample.time_ns);
    const double lasts_s = Seconds(until - sample.time_ns);
    for (const ProcessSample& process : sample.processes) {
      OneReader& reader = readers[process.pid];
      if (!std::exchange(reader.is_seen, true)) {
        reader.first_user_ns = process.user_ns;
        reader.first_kernel_ns = process.kernel_ns;
        reader.first_wait_ns = process.no_cpu_ns;
      }
      reader.last_user_ns = process.user_ns;
      reader.last_kernel_ns = process.kernel_ns;
      reader.last_wait_ns = process.no_cpu_ns;
      if (process.doing == Doing::kDisk) reader.disk_s += lasts_s;
      if (process.doing == Doing::kRuns) reader.runs_s += lasts_s;
      if (process.doing == Doing::kSleeps) reader.sleeps_s += lasts_s;
    }
  }
  return readers;
}

}  // namespace

StartParts PartsOf(const StartLog& log) {
  StartParts parts;
  parts.is_ready = log.is_ready;
  parts.total_s = Seconds(log.end_ns - std::min(log.begin_ns, log.end_ns));
  for (const Progress& progress : log.progress) {
    parts.bytes = std::max(parts.bytes, progress.bytes);
    parts.missed = std::max(parts.missed, progress.missed - log.progress.front().missed);
    if (progress.disk_rate > 0) parts.disk_rate = progress.disk_rate;
  }
  // An answer may be later than the end.
  const uint64_t begin_ns = std::min(LoadBegin(log), std::max(log.begin_ns, log.end_ns));
  parts.init_s = Seconds(begin_ns - std::min(log.begin_ns, begin_ns));
  const double load_s = parts.total_s - parts.init_s;
  const std::map<pid_t, OneReader> all = ReadersOf(log, begin_ns);
  double busiest = 0;
  for (const auto& [pid, reader] : all) busiest = std::max(busiest, reader.busy_s());
  for (const auto& [pid, reader] : all) {
    const double seen_s = reader.busy_s() + reader.sleeps_s;
    if (seen_s <= 0 || reader.busy_s() < kLeastBusy * busiest) continue;
    ++parts.readers;
    // What it ran by the kernel's own clocks; the rest of what it was found running it waited.
    const double user = Seconds(reader.last_user_ns - reader.first_user_ns);
    const double kernel = Seconds(reader.last_kernel_ns - reader.first_kernel_ns);
    const double waited = Seconds(reader.last_wait_ns - reader.first_wait_ns);
    const double clocks = std::max(user + kernel + waited, 1e-9);
    const double runs_s = reader.runs_s * load_s / seen_s;
    parts.disk_s += reader.disk_s * load_s / seen_s;
    parts.device_s += reader.sleeps_s * load_s / seen_s;
    parts.user_s += runs_s * user / clocks;
    parts.kernel_s += runs_s * kernel / clocks;
    parts.no_cpu_s += runs_s * waited / clocks;
  }
  if (parts.readers == 0) {
    parts.device_s = load_s;
    return parts;
  }
  for (double* part :
       {&parts.disk_s, &parts.device_s, &parts.user_s, &parts.kernel_s, &parts.no_cpu_s}) {
    *part /= parts.readers;
  }
  return parts;
}

Limit LimitOf(const StartParts& parts) {
  const std::array<std::pair<const char*, double>, 6> named = {{{"init", parts.init_s},
                                                                {"disk", parts.disk_s},
                                                                {"device", parts.device_s},
                                                                {"kernel", parts.kernel_s},
                                                                {"cpu", parts.user_s},
                                                                {"no-cpu", parts.no_cpu_s}}};
  const auto greatest = std::max_element(
      named.begin(), named.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  Limit limit;
  limit.name = greatest->first;
  const std::string part = HumanSeconds(greatest->second) + " of " + HumanSeconds(parts.total_s);
  if (limit.name == "init") {
    limit.reason = part + " passed before the model was read";
    limit.advice = "loading cannot make that shorter; what a start imports and compiles can be";
  } else if (limit.name == "disk") {
    limit.reason = part + " its readers waited for the disk or for pages on their way";
    limit.advice = parts.disk_rate > 0
                       ? "at the " + std::to_string(static_cast<uint64_t>(parts.disk_rate / 1e6)) +
                             " MB/s that the disk gave, only fewer bytes or a faster disk help; "
                             "ppcctl plan tells the bound"
                       : "prefetch ahead of the readers (is there a policy? ppcctl doctor), or a "
                         "faster disk";
  } else if (limit.name == "device") {
    limit.reason = part + " its readers slept: they waited for the device, or for each other";
    limit.advice = "pages come fast enough; the device, or how the engine feeds it, sets the pace";
  } else if (limit.name == "kernel") {
    limit.reason = part + " was work in the kernel: faults, copying, mapping";
    limit.advice = "fewer and larger pages (large folios), or more workers";
  } else if (limit.name == "cpu") {
    limit.reason = part + " was the programs' own work";
    limit.advice = "more workers, or a format that needs no conversion";
  } else {
    limit.reason = part + " its processes had work and no CPU";
    limit.advice = "more CPUs for its cgroup (cpu.max), or fewer neighbours";
  }
  return limit;
}

}  // namespace ppc::ctl
