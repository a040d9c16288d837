// SPDX-License-Identifier: Apache-2.0
#include "extras/report/parts.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>
#include <vector>

#include "tools/ppcctl/text.h"

namespace ppc::ctl {
namespace {

// A look this late shows little of the time since the last one.
constexpr double kLate_s = 0.1;
// A reader counts if it was busy for this share of the busiest reader's time.
constexpr double kLeastBusy = 0.2;

double Seconds(uint64_t ns) { return static_cast<double>(ns) / 1e9; }

// A sum of clocks over threads falls when a thread ends.
double Grown(uint64_t first_ns, uint64_t last_ns) {
  return Seconds(last_ns - std::min(first_ns, last_ns));
}

const ProcessSample* Find(const Sample& sample, pid_t pid) {
  const auto found = std::ranges::find(sample.processes, pid, &ProcessSample::pid);
  return found != sample.processes.end() ? &*found : nullptr;
}

// A load may begin slowly.  Returns since when before `begin_ns` processes have waited for the disk
// nearly all the time, but no later than some of the model had been read.
uint64_t WaitingSince(const StartLog& log, uint64_t begin_ns) {
  uint64_t unread_ns = log.begin_ns;
  for (const Progress& progress : log.progress) {
    if (progress.is_counted && progress.bytes == 0 && progress.asked_ns < begin_ns)
      unread_ns = std::max(unread_ns, progress.asked_ns);
  }
  uint64_t since_ns = begin_ns;
  for (size_t i = log.samples.size(); i-- > 0;) {
    const Sample& sample = log.samples[i];
    if (sample.time_ns >= begin_ns) continue;
    if (sample.time_ns < unread_ns || Seconds(since_ns - sample.time_ns) > kLate_s) break;
    if (std::ranges::find(sample.processes, Doing::kDisk, &ProcessSample::doing) !=
        sample.processes.end())
      since_ns = sample.time_ns;
  }
  return since_ns;
}

// When reading the model began; the begin of the start if unknown.
uint64_t LoadBegin(const StartLog& log) {
  uint64_t most = 0;
  uint64_t followed_ns = 0;  // the last query that found nothing read of a template
  for (const Progress& progress : log.progress) {
    most = std::max(most, progress.bytes);
    if (progress.total > 0 && progress.bytes == 0) followed_ns = progress.asked_ns;
  }
  // Read between two queries; at the last one the service was ready.
  if (most == 0) return followed_ns == 0 ? log.begin_ns : std::min(followed_ns, log.end_ns);
  uint64_t before = log.begin_ns;
  for (const Progress& progress : log.progress) {
    if (!progress.is_counted) continue;
    if (progress.bytes <= most / 50) {
      before = progress.asked_ns;
      continue;
    }
    // Extrapolates the pace of the rest, but not before the earlier query.
    const double rest = static_cast<double>(std::max<uint64_t>(most - progress.bytes, 1));
    const double rest_ns = Seconds(log.end_ns - std::min(progress.time_ns, log.end_ns)) * 1e9;
    const double since_ns = static_cast<double>(progress.bytes) / rest * rest_ns;
    const auto most_ns = static_cast<double>(progress.time_ns - before);
    return WaitingSince(log, progress.time_ns - static_cast<uint64_t>(std::min(since_ns, most_ns)));
  }
  return log.begin_ns;
}

// One reading process during the load.
struct OneReader {
  double disk_s = 0;
  double runs_s = 0;
  double sleeps_s = 0;
  uint64_t first_user_ns = 0, last_user_ns = 0;
  uint64_t first_kernel_ns = 0, last_kernel_ns = 0;
  uint64_t first_wait_ns = 0, last_wait_ns = 0;
  bool is_seen = false;

  double busy_s() const { return disk_s + runs_s; }
  double seen_s() const { return busy_s() + sleeps_s; }
  double user_s() const { return Grown(first_user_ns, last_user_ns); }
  double kernel_s() const { return Grown(first_kernel_ns, last_kernel_ns); }
  double no_cpu_s() const { return Grown(first_wait_ns, last_wait_ns); }
};

// Calls see(sample, next, seconds) for each sample, with the next sample (nullptr: none) and the
// time of the load that it stands for.
template <typename See>
void ForEachSample(const StartLog& log, uint64_t begin_ns, See see) {
  for (size_t i = 0; i < log.samples.size(); ++i) {
    const Sample* const next = i + 1 < log.samples.size() ? &log.samples[i + 1] : nullptr;
    const uint64_t from = std::max(log.samples[i].time_ns, begin_ns);
    const uint64_t until = std::min(next != nullptr ? next->time_ns : log.end_ns, log.end_ns);
    if (until > from) see(log.samples[i], next, Seconds(until - from));
  }
}

// A process's activity between two looks: the state that was found.  If the second look was late
// (no CPU to look with), its clocks tell how long it ran.
void AddStretch(const ProcessSample& found, const ProcessSample* next, double lasts_s,
                OneReader* reader) {
  const auto add = [reader](Doing doing, double seconds) {
    if (doing == Doing::kDisk) reader->disk_s += seconds;
    if (doing == Doing::kRuns) reader->runs_s += seconds;
    if (doing == Doing::kSleeps) reader->sleeps_s += seconds;
  };
  const bool is_still =
      next != nullptr && next->doing == found.doing && found.doing == Doing::kRuns;
  if (next == nullptr || lasts_s < kLate_s || is_still) return add(found.doing, lasts_s);
  const double clocks_s = Grown(found.user_ns, next->user_ns) +
                          Grown(found.kernel_ns, next->kernel_ns) +
                          Grown(found.no_cpu_ns, next->no_cpu_ns);
  const double ran_s = std::min(clocks_s, lasts_s);
  add(Doing::kRuns, ran_s);
  add(found.doing == Doing::kRuns ? next->doing : found.doing, lasts_s - ran_s);
}

std::map<pid_t, OneReader> ReadersOf(const StartLog& log, uint64_t begin_ns) {
  std::map<pid_t, OneReader> readers;
  ForEachSample(log, begin_ns,
                [&readers](const Sample& sample, const Sample* next, double lasts_s) {
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
                    AddStretch(process, next != nullptr ? Find(*next, process.pid) : nullptr,
                               lasts_s, &reader);
                  }
                });
  double busiest = 0;
  for (const auto& [pid, reader] : readers) busiest = std::max(busiest, reader.busy_s());
  std::erase_if(readers, [busiest](const auto& each) {
    return each.second.seen_s() <= 0 || each.second.busy_s() < kLeastBusy * busiest;
  });
  return readers;
}

// Seconds in which at least one of the readers existed.
double CoveredSeconds(const StartLog& log, uint64_t begin_ns,
                      const std::map<pid_t, OneReader>& readers) {
  double covered_s = 0;
  ForEachSample(log, begin_ns, [&](const Sample& sample, const Sample*, double lasts_s) {
    const bool is_there = std::ranges::any_of(sample.processes, [&](const ProcessSample& process) {
      return readers.contains(process.pid);
    });
    if (is_there) covered_s += lasts_s;
  });
  return covered_s;
}

// Its run time by the kernel's clocks, at most the time it was found running: the clocks of several
// threads run in parallel.
void AddReader(const OneReader& reader, StartParts* parts) {
  const double clocks_s = reader.user_s() + reader.kernel_s() + reader.no_cpu_s();
  const double share = clocks_s > reader.runs_s ? reader.runs_s / clocks_s : 1;
  parts->disk_s += reader.disk_s;
  parts->device_s += reader.sleeps_s;
  parts->user_s += share * reader.user_s();
  parts->kernel_s += share * reader.kernel_s();
  parts->no_cpu_s += share * reader.no_cpu_s();
  parts->overlap_s += (1 - share) * clocks_s;
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
  // An answer may arrive after the end.
  const uint64_t begin_ns = std::min(LoadBegin(log), std::max(log.begin_ns, log.end_ns));
  parts.init_s = Seconds(begin_ns - std::min(log.begin_ns, begin_ns));
  const std::map<pid_t, OneReader> readers = ReadersOf(log, begin_ns);
  parts.readers = static_cast<uint32_t>(readers.size());
  double seen_s = 0;
  for (const auto& [pid, reader] : readers) {
    AddReader(reader, &parts);
    seen_s += reader.seen_s();
  }
  // Concurrent readers are averaged, consecutive ones added.
  const double weight = seen_s > 0 ? CoveredSeconds(log, begin_ns, readers) / seen_s : 0;
  double explained_s = parts.init_s;
  for (double* part :
       {&parts.disk_s, &parts.device_s, &parts.user_s, &parts.kernel_s, &parts.no_cpu_s}) {
    *part *= weight;
    explained_s += *part;
  }
  parts.overlap_s *= weight;
  parts.unexplained_s = std::max(0.0, parts.total_s - explained_s);
  return parts;
}

Limit LimitOf(const StartParts& parts) {
  const std::array<std::pair<const char*, double>, 7> named = {
      {{"init", parts.init_s},
       {"disk", parts.disk_s},
       {"device", parts.device_s},
       {"kernel", parts.kernel_s},
       {"cpu", parts.user_s},
       {"no-cpu", parts.no_cpu_s},
       {"unexplained", parts.unexplained_s}}};
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
  } else if (limit.name == "unexplained") {
    limit.reason = part + " was not seen: no process was looked at that read, or its clocks differ";
    limit.advice = "have the whole start looked at: ppcctl run --report FILE";
  } else {
    limit.reason = part + " its processes had work and no CPU";
    limit.advice = "more CPUs for its cgroup (cpu.max), or fewer neighbours";
  }
  return limit;
}

}  // namespace ppc::ctl
