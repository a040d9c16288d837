// SPDX-License-Identifier: Apache-2.0
// loadmodel: loads a safetensors directory as serving frameworks do, and says how long it took.
// Threads: one; workers are processes of their own.
#include <cstdio>

#include "tools/model/loadmodel/config.h"
#include "tools/model/loadmodel/service.h"
#include "tools/model/loadmodel/worker.h"

namespace {

constexpr char kUsage[] =
    "usage: loadmodel [OPTIONS] DIR\n"
    "Loads the safetensors checkpoint in DIR with N worker processes, each taking its\n"
    "tensor-parallel slice of every tensor through one reused staging buffer, and prints one JSON\n"
    "object: stages, seconds, bytes and checksum per worker.\n"
    "  --workers N       worker processes (default 1); each gets PPC_WORKER and LOCAL_RANK\n"
    "  --tp N            tensor-parallel size (default: as many as workers)\n"
    "  --mode mmap|read  private writable mapping of each shard (default), or read()\n"
    "  --direct          read() with O_DIRECT\n"
    "  --device-mbps X   the device takes X MB/s per worker, slept; 0 (default): no time\n"
    "  --init-s S        seconds without model reads after the small first ones\n"
    "  --staging SIZE    staging buffer, 1M to 16M (default 8M)\n"
    "  --xpu-nodes LIST  NUMA node of each worker's XPU, e.g. 0,1\n"
    "  --bind LIST       the same, and run each worker on the CPUs of its node\n"
    "  --placement       count on which node the pages lie that one worker alone needs\n"
    "  --remote-cost X   modelled: bytes of such pages on another node than the XPU's take the "
    "device X\n"
    "                    times as long (needs --placement)\n"
    "  --drop-shards     each worker drops a shard from the page cache when it has loaded it\n"
    "  --keep-mapped     each worker keeps its shards mapped until all are loaded\n"
    "  --passes N        load N times\n"
    "  --shuffle SEED    take the shards in another order\n"
    "  --ranks LIST      whose slices each worker takes, e.g. 1,0; with fewer workers than --tp "
    "those\n"
    "                    of this node, e.g. 2,3\n"
    "  --ready-cmd CMD   run CMD when the service is ready\n"
    "Tensors with names other than Qwen's, Llama's and DeepSeek's are split on their first\n"
    "dimension when they have two or more and it divides evenly, and are replicated otherwise.\n";

}  // namespace

int main(int argc, char** argv) {
  using namespace ppc;
  using namespace ppc::bench;
  Result<Options> options = Options::Parse(argc, argv, LoadOptionNames(), LoadFlagNames());
  if (!options.ok()) return Fail("loadmodel", options.error());
  if (options->Has("help")) {
    std::fputs(kUsage, stdout);
    return 0;
  }
  Result<LoadConfig> config = ParseLoadConfig(*options);
  if (!config.ok()) return Fail("loadmodel", config.error());
  if (config->worker >= 0) return WorkerMain(*config);
  Result<Json> report = RunService(*config, std::vector<std::string>(argv + 1, argv + argc));
  if (!report.ok()) return Fail("loadmodel", report.error());
  std::printf("%s\n", DumpJson(*report).c_str());
  return 0;
}
