// SPDX-License-Identifier: Apache-2.0
// ppc-sample: writes what disk, control group, nodes and page cache do over time as JSON lines.
// Threads: one.
#include <fcntl.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "daemon/base/clock.h"
#include "daemon/base/files.h"
#include "daemon/base/unique_fd.h"
#include "tools/model/common/options.h"
#include "tools/model/sample/counters.h"
#include "tools/model/sample/residency.h"

namespace {

using namespace ppc;
using namespace ppc::bench;

constexpr char kUsage[] =
    "usage: ppc-sample [--disk NAME] [--cgroup DIR] [--files DIR] [--interval-ms 250]\n"
    "                  [--residency-ms 1000] [--buckets 64] [--pages 8] [--out FILE]\n"
    "       ppc-sample --count DIR\n"
    "Writes one JSON object per line until it gets SIGTERM or SIGINT: bytes read from the disk, "
    "the\n"
    "group's memory counters, page cache per NUMA node, and, more rarely, which parts of the "
    "files\n"
    "in DIR are in the page cache (per file a string of digits, one per bucket of the file: how\n"
    "many of --pages neighbouring pages in its middle are resident).\n"
    "--count prints the number of resident pages of all files in DIR, and of all their pages.\n";

volatile sig_atomic_t g_is_stopped = 0;

using Files = std::vector<std::pair<std::string, MappedFile>>;

int Count(const std::string& dir) {
  Result<Files> files = MapDirectory(dir);
  if (!files.ok()) return Fail("ppc-sample", files.error());
  uint64_t resident = 0, pages = 0;
  for (const auto& [name, file] : *files) {
    resident += file.Resident(0, file.pages());
    pages += file.pages();
  }
  std::printf("%llu %llu\n", static_cast<unsigned long long>(resident),
              static_cast<unsigned long long>(pages));
  return 0;
}

struct SampleConfig {
  std::string disk, cgroup;
  uint64_t interval_ns = 0, residency_ns = 0;
  uint32_t buckets = 0, pages = 0;
  Files files;
};

// Names and sizes once, so that later lines can be short.  Names must not need escaping.
std::string FirstLine(const SampleConfig& config) {
  std::string files;
  for (const auto& [name, file] : config.files)
    files += (files.empty() ? "" : ",") + ("{\"name\":\"" + name + "\",\"bytes\":") +
             std::to_string(file.bytes()) + "}";
  return "{\"version\":1,\"interval_ms\":" + std::to_string(config.interval_ns / kNsPerMs) +
         ",\"buckets\":" + std::to_string(config.buckets) +
         ",\"pages\":" + std::to_string(config.pages) + ",\"files\":[" + files + "]}\n";
}

std::string CounterLine(const SampleConfig& config) {
  std::string line = "{\"t\":" + std::to_string(MonotonicNs()) + "," + NodesJson("");
  for (const std::string& part : {config.disk.empty() ? "" : DiskJson("", config.disk),
                                  config.cgroup.empty() ? "" : CgroupJson(config.cgroup)})
    if (!part.empty()) line += "," + part;
  return line + "}\n";
}

std::string ResidencyLine(const SampleConfig& config) {
  std::string line = "{\"t\":" + std::to_string(MonotonicNs()) + ",\"resident\":[";
  for (const auto& [name, file] : config.files)
    line += (line.back() == '[' ? "\"" : ",\"") + file.Digits(config.buckets, config.pages) + "\"";
  return line + "]}\n";
}

void SleepUntil(uint64_t deadline_ns) {
  const timespec until{static_cast<time_t>(deadline_ns / kNsPerSec),
                       static_cast<long>(deadline_ns % kNsPerSec)};
  while (g_is_stopped == 0 &&
         ::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == EINTR) {
  }
}

int Sample(const SampleConfig& config, int out) {
  struct sigaction stop {};
  stop.sa_handler = [](int) { g_is_stopped = 1; };
  ::sigaction(SIGTERM, &stop, nullptr);
  ::sigaction(SIGINT, &stop, nullptr);
  std::string text = FirstLine(config);
  uint64_t next = MonotonicNs(), next_residency = next;
  for (;;) {
    text += CounterLine(config);
    if (!config.files.empty() && (MonotonicNs() >= next_residency || g_is_stopped != 0)) {
      text += ResidencyLine(config);
      next_residency += config.residency_ns;
    }
    const Status written = WriteAll(out, text.data(), text.size());
    if (!written.ok()) return Fail("ppc-sample", written.error());
    if (g_is_stopped != 0) return 0;  // after one last sample
    text.clear();
    next = std::max(next + config.interval_ns, MonotonicNs());
    SleepUntil(next);
  }
}

int Run(const Options& options) {
  SampleConfig config;
  config.disk = options.Text("disk", "");
  config.cgroup = options.Text("cgroup", "");
  const auto number = [&](const char* name, uint64_t fallback, uint64_t max) -> Result<uint64_t> {
    Result<uint64_t> value = options.Number(name, fallback);
    if (value.ok() && (*value < 1 || *value > max))
      return Error{EINVAL,
                   "--" + std::string(name) + " must be between 1 and " + std::to_string(max)};
    return value;
  };
  const Result<uint64_t> interval = number("interval-ms", 250, 3600000);
  const Result<uint64_t> residency = number("residency-ms", 1000, 3600000);
  const Result<uint64_t> buckets = number("buckets", 64, 4096);
  const Result<uint64_t> pages = number("pages", 8, 9);
  for (const auto* value : {&interval, &residency, &buckets, &pages})
    if (!value->ok()) return Fail("ppc-sample", value->error());
  config.interval_ns = *interval * kNsPerMs;
  config.residency_ns = *residency * kNsPerMs;
  config.buckets = static_cast<uint32_t>(*buckets);
  config.pages = static_cast<uint32_t>(*pages);
  if (options.Has("files")) {
    Result<Files> files = MapDirectory(options.Text("files", ""));
    if (!files.ok()) return Fail("ppc-sample", files.error());
    config.files = std::move(*files);
  }
  UniqueFd out(::dup(STDOUT_FILENO));
  if (options.Has("out")) {
    const std::string path = options.Text("out", "");
    out.Reset(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (!out.IsValid()) return Fail("ppc-sample", PosixError(path, errno));
  }
  return Sample(config, out.Get());
}

}  // namespace

int main(int argc, char** argv) {
  Result<Options> options = Options::Parse(argc, argv,
                                           {"disk", "cgroup", "files", "interval-ms",
                                            "residency-ms", "buckets", "pages", "out", "count"},
                                           {"help"});
  if (!options.ok()) return Fail("ppc-sample", options.error());
  if (options->Has("help")) {
    std::fputs(kUsage, stdout);
    return 0;
  }
  if (!options->words().empty())
    return Fail("ppc-sample", Error{EINVAL, "'" + options->words()[0] + "' is not an option"});
  return options->Has("count") ? Count(options->Text("count", "")) : Run(*options);
}
