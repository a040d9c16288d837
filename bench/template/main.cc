// SPDX-License-Identifier: Apache-2.0
// ppc-template-bench: sizes of templates of the paper's six models at full size, and how long they
// take to write and to read.
// Threads: one.
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "bench/template/simulated_recording.h"
#include "daemon/base/clock.h"
#include "policies/maio/follow/layout.h"
#include "policies/maio/template/template.h"
#include "tools/model/common/model_layout.h"
#include "tools/model/common/options.h"

namespace {

using namespace ppc;
using namespace ppc::bench;

constexpr char kUsage[] =
    "usage: ppc-template-bench [--model NAME] [--seed S] [--runs N] [--store DIR]\n"
    "Records the start-up of each model of the paper's Table 3 (or of NAME) at full size in a\n"
    "simulated load, and prints the size of its template, the time to encode and decode it\n"
    "(median of N runs, default 9), and the memory that using it takes.  --store keeps the "
    "templates.\n";

struct Row {
  const char* model;
  uint32_t workers;
  double paper_kb;
};

constexpr Row kRows[] = {{"qwen2.5-7b", 4, 11}, {"qwen2.5-32b", 4, 32},  {"qwen2.5-72b", 4, 95},
                         {"llama-2-7b", 4, 14}, {"llama-2-70b", 4, 118}, {"deepseek-r1", 16, 545}};

double Median(std::vector<uint64_t> ns) {
  std::sort(ns.begin(), ns.end());
  return static_cast<double>(ns[ns.size() / 2]) / 1e6;
}

Status Measure(const Row& row, uint64_t seed, uint64_t runs, const std::string& store) {
  Jitter jitter;
  jitter.seed = seed;
  const maio::Template t = SimulateRecording(*FindModel(row.model), 1, row.workers, jitter);
  size_t extents = 0;
  for (const maio::TemplateGroup& group : t.groups) extents += group.extents.size();
  std::vector<uint64_t> encode, decode;
  std::vector<uint8_t> bytes;
  for (uint64_t run = 0; run < runs; ++run) {
    const uint64_t start = MonotonicNs();
    bytes = maio::Encode(t);
    const uint64_t middle = MonotonicNs();
    std::string error;
    if (!maio::Decode(bytes, &error)) return Error{5, std::string(row.model) + ": " + error};
    decode.push_back(MonotonicNs() - middle);
    encode.push_back(middle - start);
  }
  const std::vector<uint64_t> numbers(t.files.size(), 1);
  const maio::Layout layout(t, numbers);
  std::printf("%-12s %7u %9zu %9zu %9.0f %6.1f%% %9.1f %9.1f %9zu\n", row.model, row.workers,
              extents, bytes.size(), row.paper_kb * 1000,
              100.0 * static_cast<double>(bytes.size()) / (row.paper_kb * 1000), Median(encode),
              Median(decode), layout.held_bytes() / 1000);
  std::string error;
  if (!store.empty() && maio::Store(store, t, &error) != 0) return Error{5, error};
  return Ok();
}

}  // namespace

int main(int argc, char** argv) {
  Result<Options> options =
      Options::Parse(argc, argv, {"model", "seed", "runs", "store"}, {"help"});
  if (!options.ok()) return Fail("ppc-template-bench", options.error());
  if (options->Has("help")) {
    std::fputs(kUsage, stdout);
    return 0;
  }
  const Result<uint64_t> seed = options->Number("seed", 1);
  const Result<uint64_t> runs = options->Number("runs", 9);
  if (!seed.ok()) return Fail("ppc-template-bench", seed.error());
  if (!runs.ok() || *runs == 0)
    return Fail("ppc-template-bench", Error{22, "--runs is at least 1"});
  const std::string model = options->Text("model", "");
  if (Result<ModelSpec> found = FindModel(model); !model.empty() && !found.ok())
    return Fail("ppc-template-bench", found.error());
  std::printf("%-12s %7s %9s %9s %9s %7s %9s %9s %9s\n", "model", "workers", "extents", "bytes",
              "paper's", "share", "encode ms", "decode ms", "in use KB");
  for (const Row& row : kRows) {
    if (!model.empty() && model != row.model) continue;
    const Status done = Measure(row, *seed, *runs, options->Text("store", ""));
    if (!done.ok()) return Fail("ppc-template-bench", done.error());
  }
  return 0;
}
