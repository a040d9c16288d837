// SPDX-License-Identifier: Apache-2.0
// ppc-placement: compares placers by starts of services on a simulated cluster.
// Threads: one.
#include <cerrno>
#include <cstdio>
#include <string>
#include <utility>

#include "extras/placement/simulation/trace.h"
#include "tools/model/common/options.h"

namespace {

using namespace ppc;
using namespace ppc::bench;

constexpr const char* kName = "ppc-placement";
constexpr char kUsage[] =
    "usage: ppc-placement [--starts N] [--nodes N] [--models N] [--between SECONDS]\n"
    "                     [--publish SECONDS] [--seeds N]\n"
    "Starts services on a simulated cluster (default: 1000 on 50 nodes, 20 models, one every 2 s,\n"
    "states published every 2 s, means of 5 seeds) and prints how long their loads take, by how\n"
    "they were placed: at random, on the node with the fewest loads, by hashing of the model's "
    "name,\n"
    "and by ppc_place_best().\n";

// Larger values take minutes, or too much memory.
constexpr uint64_t kMost = 100000;

Status Count(const Options& options, const char* name, uint64_t* out) {
  const Result<uint64_t> number = options.Number(name, *out);
  if (!number) return number.error();
  if (*number == 0 || *number > kMost)
    return Error{EINVAL, "--" + std::string(name) + " must be 1 to " + std::to_string(kMost)};
  *out = *number;
  return Ok();
}

Status Seconds(const Options& options, const char* name, double* out) {
  const Result<double> number = options.Real(name, *out);
  if (!number) return number.error();
  if (!(*number > 0) || *number > kMost)
    return Error{EINVAL, "--" + std::string(name) + " must be more than 0 seconds"};
  *out = *number;
  return Ok();
}

Status Read(const Options& options, Trace* trace, uint64_t* seeds) {
  uint64_t starts = trace->starts;
  uint64_t nodes = trace->nodes;
  uint64_t models = trace->models;
  for (const auto& [name, number] : {std::pair{"starts", &starts}, std::pair{"nodes", &nodes},
                                     std::pair{"models", &models}, std::pair{"seeds", seeds}}) {
    if (const Status status = Count(options, name, number); !status) return status;
  }
  trace->starts = starts;
  trace->nodes = nodes;
  trace->models = models;
  if (const Status status = Seconds(options, "between", &trace->between_s); !status) return status;
  return Seconds(options, "publish", &trace->publish_s);
}

void Print(const Trace& trace, uint64_t seeds) {
  std::puts(
      "| placement | mean load, s | p99, s | starts that waited for nothing | read, TB | nodes "
      "used |");
  std::puts("|---|---|---|---|---|---|");
  for (const Placement placement :
       {Placement::kRandom, Placement::kLeastLoaded, Placement::kHashing, Placement::kScore}) {
    const Outcome outcome = Average(trace, placement, seeds);
    std::printf("| %s | %.2f | %.1f | %zu of %zu | %.1f | %zu |\n", NameOf(placement),
                outcome.mean_s, outcome.p99_s, outcome.warm, trace.starts,
                outcome.read_bytes / 1e12, outcome.nodes_used);
  }
}

}  // namespace

int main(int argc, char** argv) {
  Result<Options> options = Options::Parse(
      argc, argv, {"starts", "nodes", "models", "between", "publish", "seeds"}, {"help"});
  if (!options) return Fail(kName, options.error());
  if (options->Has("help")) {
    std::fputs(kUsage, stdout);
    return 0;
  }
  Trace trace;
  uint64_t seeds = 5;
  const Status status = Read(*options, &trace, &seeds);
  if (!status) return Fail(kName, status.error());
  Print(trace, seeds);
  return 0;
}
