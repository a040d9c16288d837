// SPDX-License-Identifier: Apache-2.0
#include "daemon/cache/step_times.h"

#include <algorithm>

namespace ppc {

StepTimes::StepTimes(const LoadQueue* queue, const LoaderLayout& layout, int small_loads)
    : queue_(queue) {
  for (const LoaderLayout::Thread& thread : layout.Threads()) ++loaders_[{thread.node, false}];
  for (int i = 0; i < small_loads; ++i)
    ++loaders_[{layout.NodeInTurn(static_cast<size_t>(i)), true}];
}

void StepTimes::Begin(const LoaderThread& loader, const Payer* payer) {
  busy_.push_back({&loader, payer});
}

void StepTimes::End(const LoaderThread& loader) {
  std::erase_if(busy_, [&](const Busy& busy) { return busy.loader == &loader; });
}

// Pages that were in memory already say nothing of the time that a load takes.
void StepTimes::Note(const Payer* payer, uint64_t now_ns, uint64_t took_ns,
                     const LoadResult& result) {
  const bool is_waiting = result.loaded > 0 || result.stop == LoadStop::kLater;
  const bool counts = result.loaded >= kWholeBytes || (is_waiting && took_ns > kLateNs);
  if (payer == nullptr || !counts) return;
  std::erase_if(times_, [&](const auto& old) { return old.second.noted_ns + kRecentNs < now_ns; });
  const auto [its, is_new] = times_.try_emplace(payer->serial);
  Times& times = its->second;
  times.average_ns = is_new ? took_ns : times.average_ns - times.average_ns / 4 + took_ns / 4;
  times.noted_ns = now_ns;
  times.has_loaded |= result.loaded > 0;
}

bool StepTimes::IsLate(const Payer* payer, uint64_t now_ns) const {
  const auto its = payer == nullptr ? times_.end() : times_.find(payer->serial);
  if (its == times_.end() || its->second.average_ns <= kLateNs) return false;
  return std::ranges::any_of(times_, [&](const auto& other) {
    const Times& theirs = other.second;
    return theirs.has_loaded && now_ns < theirs.noted_ns + kRecentNs &&
           its->second.average_ns > kLateFactor * theirs.average_ns;
  });
}

bool StepTimes::MayLoad(const LoaderThread& loader, const Payer* payer, uint64_t now_ns) const {
  if (!IsLate(payer, now_ns)) return true;
  const LoaderClass loader_class = ClassOf(loader);
  int late = 0;
  bool is_alone = queue_->Bytes() == queue_->BytesOf(payer->service);
  for (const Busy& busy : busy_) {
    is_alone &= busy.payer == payer;
    const bool is_beside = busy.loader != &loader && ClassOf(*busy.loader) == loader_class;
    if (is_beside && IsLate(busy.payer, now_ns)) ++late;
  }
  const auto found = loaders_.find(loader_class);
  const int most = found == loaders_.end() ? 0 : found->second / kPart;
  return is_alone || late < std::max(1, most);
}

}  // namespace ppc
