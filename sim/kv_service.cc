// SPDX-License-Identifier: Apache-2.0
#include "sim/kv_service.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <utility>

namespace ppc::sim {
namespace {

constexpr int kKvPid = 700'000'000;

// Not std::shuffle: results differ between libraries.
void MixUp(std::vector<uint32_t>* list, size_t from, uint64_t seed) {
  std::mt19937_64 random(seed);
  for (size_t i = list->size(); i > from + 1; --i)
    std::swap((*list)[i - 1], (*list)[from + random() % (i - from)]);
}

}  // namespace

KvService::KvService(Kernel* kernel, const KvOptions& options, uint64_t seed, bool through_ppc,
                     std::string proc)
    : kernel_(kernel),
      options_(options),
      seed_(seed),
      through_ppc_(through_ppc),
      proc_(std::move(proc)) {}

std::vector<std::string> KvService::AddFiles(PageCache* cache, const KvOptions& options,
                                             const std::string& directory) {
  std::vector<std::string> paths;
  if (options.layout == KvLayout::kLarge) {
    paths.push_back(directory + "/objects.bin");
    cache->AddFile(paths.back(), options.files() * options.object_bytes, "");
    return paths;
  }
  for (uint64_t i = 0; i < options.files(); ++i) {
    paths.push_back(directory + "/" + std::to_string(i) + ".pt");
    cache->AddFile(paths.back(), options.object_bytes, "");
  }
  return paths;
}

// The order in which objects are read.  Keys are hashes, so the chain visits the directory at
// random.
std::vector<uint32_t> KvService::OrderOf(uint32_t pass) const {
  std::vector<uint32_t> order(options_.files());
  std::iota(order.begin(), order.end(), 0u);
  MixUp(&order, 0, seed_);
  const bool is_last = pass + 1 == options_.passes;
  if (options_.order == KvOrder::kRandom) MixUp(&order, 0, seed_ + 1000 + pass);
  const size_t objects = options_.objects();
  if (options_.order == KvOrder::kChanged && is_last)
    std::swap_ranges(order.begin() + static_cast<long>(objects), order.end(),
                     order.begin() + static_cast<long>(objects / 2));
  order.resize(objects);
  std::mt19937_64 random(seed_ + 2000 + pass);
  for (size_t i = 0; i + 1 < order.size(); ++i) {
    if (random() % 100 < options_.swaps_in_100) std::swap(order[i], order[i + 1]);
  }
  return order;
}

void KvService::Pass(Thread* thread, const std::vector<std::string>& paths, uint32_t pass) {
  PageCache& cache = kernel_->cache();
  const std::vector<uint32_t> order = OrderOf(pass);
  const bool is_large = options_.layout == KvLayout::kLarge;
  OpenFile* all = nullptr;
  if (is_large) all = kernel_->Open(thread, cache.FindPath(paths[0]), through_ppc_, false);
  for (size_t i = 0; i < order.size(); ++i) {
    if (is_large) {
      kernel_->Read(thread, all, order[i] * options_.object_bytes, options_.object_bytes);
    } else {
      OpenFile* open = kernel_->Open(thread, cache.FindPath(paths[order[i]]), through_ppc_, false);
      kernel_->Read(thread, open, 0, options_.object_bytes);
      kernel_->Close(thread, open);
    }
    if ((i + 1) % options_.chunks != 0) continue;
    kernel_->cpus().Settle(thread);
    kernel_->scheduler().Sleep(static_cast<uint64_t>(options_.compute_s * 1e9));
  }
  if (is_large) kernel_->Close(thread, all);
}

ServiceReport KvService::Run(const std::vector<std::string>& paths) {
  Scheduler& scheduler = kernel_->scheduler();
  ServiceReport report;
  report.exec_ns = scheduler.NowNs();
  Process process{.pid = kKvPid, .payer = kServicePays};
  MakeProcess(scheduler, &process, -1, proc_, "simulated");
  Thread thread{.process = &process, .tid = process.pid};
  for (uint32_t pass = 0; pass < options_.passes; ++pass) {
    if (pass > 0) scheduler.Sleep(static_cast<uint64_t>(options_.pause_s * 1e9));
    if (pass > 0 && options_.is_dropped) kernel_->cache().DropEverything();
    report.load_ns = scheduler.NowNs();
    const uint64_t before = kernel_->disk().stats().bytes;
    Pass(&thread, paths, pass);
    report.bytes = kernel_->disk().stats().bytes - before;
  }
  report.ready_ns = scheduler.NowNs();
  return report;
}

}  // namespace ppc::sim
