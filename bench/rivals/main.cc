// SPDX-License-Identifier: Apache-2.0
// ppc-rival: other ways of getting a model into memory, re-created from their documented behaviour.
// Threads: the main thread; each kind adds its own, as many as its options say.
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "bench/rivals/config.h"
#include "daemon/base/clock.h"
#include "daemon/base/files.h"
#include "daemon/base/json.h"
#include "tools/model/common/model_dir.h"
#include "tools/model/common/options.h"

namespace {

using namespace ppc;
using namespace ppc::bench;

constexpr char kUsage[] =
    "usage: ppc-rival KIND [OPTIONS] DIR\n"
    "Gets the safetensors checkpoint in DIR into memory as other software does, and prints one "
    "JSON\n"
    "object.\n"
    "beside an unchanged loader, filling the page cache:\n"
    "  willneed   posix_fadvise(WILLNEED) of each whole file, once\n"
    "  prefetch   vLLM: each rank's threads read its files, one each, in blocks\n"
    "               --ranks N (1)  --threads N (8, of each rank)  --block SIZE (16M)\n"
    "  window     a window of fixed size sliding at the disk's speed, dropping behind itself\n"
    "               --window SIZE  --threads N (8)  --block SIZE (16M)\n"
    "  all:       --delay-s S   begin S seconds later: when the loader's initialisation is over\n"
    "instead of a loader, outside the page cache:\n"
    "  direct     ServerlessLLM: O_DIRECT chunks into a pool of buffers, handed to devices\n"
    "               --workers N (1)  --threads N (4, of each worker)  --chunk SIZE (32M)\n"
    "               --pool SIZE (512M, of all)  --device-mbps X (0: no time)\n"
    "               --init-s S (0): how long the whole initialisation takes\n"
    "               --early: fill the pool from the start on, not from the end of init on\n";

void SleepSeconds(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

double Seconds(uint64_t ns) { return static_cast<double>(ns) / 1e9; }

double CpuSeconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// A service whose loader is this one: init, load, ready, reported as loadmodel does.
Result<Json> RunDirect(Io* io, const RivalConfig& config, const ModelDir& dir,
                       const std::vector<std::string>& files, uint64_t exec_ns) {
  std::vector<std::unique_ptr<DirectWorker>> workers;
  for (uint32_t i = 0; i < config.direct.workers; ++i) {
    Result<std::unique_ptr<DirectWorker>> made =
        DirectWorker::Make(io, files, config.direct, i, {});
    if (!made.ok()) return made.error();
    workers.push_back(std::move(*made));
    if (config.is_early) workers.back()->StartReading();
  }
  for (const std::string& name : dir.small_files) {
    const Result<std::string> text = ReadFile(dir.path + "/" + name, size_t{64} << 20);
    if (!text.ok()) return text.error();
  }
  // init_s is all of the initialisation: what the small files took is part of it.
  SleepSeconds(config.init_s - Seconds(MonotonicNs() - exec_ns));
  const uint64_t load_ns = MonotonicNs();
  Crew crew;
  for (const std::unique_ptr<DirectWorker>& worker : workers) {
    if (!config.is_early) worker->StartReading();
    crew.Start([&worker] { return worker->Load(); });
  }
  if (const Status loaded = crew.Join(); !loaded.ok()) return loaded.error();
  const uint64_t ready_ns = MonotonicNs();
  uint64_t bytes = 0;
  for (const std::unique_ptr<DirectWorker>& worker : workers) bytes += worker->bytes();
  return Json{{"version", 1},
              {"mode", "chunks"},
              {"bytes", bytes},
              {"exec_ns", exec_ns},
              {"load_ns", load_ns},
              {"ready_ns", ready_ns},
              {"init_s", Seconds(load_ns - exec_ns)},
              {"load_s", Seconds(ready_ns - load_ns)},
              {"startup_s", Seconds(ready_ns - exec_ns)},
              {"cpu_s", CpuSeconds()}};
}

Result<Json> RunBeside(Io* io, const RivalConfig& config, const std::vector<std::string>& files,
                       uint64_t exec_ns) {
  SleepSeconds(config.delay_s);
  const uint64_t begin_ns = MonotonicNs();
  Result<uint64_t> bytes = uint64_t{0};
  if (config.kind == RivalKind::kWillNeed) {
    if (const Status asked = WillNeedFiles(io, files); !asked.ok()) return asked.error();
  } else {
    bytes = config.kind == RivalKind::kPrefetch ? PrefetchByRank(io, files, config.prefetch)
                                                : SlideWindow(io, files, config.prefetch);
  }
  if (!bytes.ok()) return bytes.error();
  return Json{{"version", 1},         {"exec_ns", exec_ns},
              {"begin_ns", begin_ns}, {"end_ns", MonotonicNs()},
              {"bytes", *bytes},      {"cpu_s", CpuSeconds()}};
}

Result<Json> Run(const Options& options) {
  const uint64_t exec_ns = MonotonicNs();
  Result<RivalConfig> config = ParseRivalConfig(options);
  if (!config.ok()) return config.error();
  Result<ModelDir> dir = OpenModelDir(config->dir);
  if (!dir.ok()) return dir.error();
  std::vector<std::string> files;
  files.reserve(dir->shards.size());
  for (const std::string& shard : dir->shards) files.push_back(dir->path + "/" + shard);
  const std::unique_ptr<Io> io = MakeSystemIo();
  return config->kind == RivalKind::kDirect ? RunDirect(io.get(), *config, *dir, files, exec_ns)
                                            : RunBeside(io.get(), *config, files, exec_ns);
}

}  // namespace

int main(int argc, char** argv) {
  Result<Options> options = Options::Parse(argc, argv, RivalOptionNames(), RivalFlagNames());
  if (!options.ok()) return Fail("ppc-rival", options.error());
  if (options->Has("help")) {
    std::fputs(kUsage, stdout);
    return 0;
  }
  const Result<Json> report = Run(*options);
  if (!report.ok()) return Fail("ppc-rival", report.error());
  std::printf("%s\n", DumpJson(*report).c_str());
  return 0;
}
