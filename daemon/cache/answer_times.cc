// SPDX-License-Identifier: Apache-2.0
#include "daemon/cache/answer_times.h"

#include <algorithm>
#include <set>

namespace ppc {
namespace {

int PerNode(const LoaderLayout& layout, int small_loads) {
  std::set<int> nodes;
  for (int i = 0; i < layout.Nodes(); ++i) nodes.insert(layout.NodeInTurn(static_cast<size_t>(i)));
  return small_loads / static_cast<int>(std::max<size_t>(nodes.size(), 1));
}

}  // namespace

AnswerTimes::AnswerTimes(const LoadQueue* queue, const LoaderLayout& layout, int small_loads)
    : queue_(queue), small_per_node_(PerNode(layout, small_loads)) {
  for (const LoaderLayout::Thread& thread : layout.Threads()) ++loaders_[thread.node];
}

int AnswerTimes::Of(const std::map<Crew, int>& counts, Crew crew) {
  const auto found = counts.find(crew);
  return found == counts.end() ? 0 : found->second;
}

int AnswerTimes::Most(Crew crew) const {
  const auto [node, is_for_small] = crew;
  const auto found = loaders_.find(node);
  const int all = is_for_small || found == loaders_.end() ? small_per_node_ : found->second;
  return std::max(1, all / kPart);
}

bool AnswerTimes::MayTake(const LoaderThread& loader, uint32_t service) const {
  const auto found = services_.find(service);
  if (found == services_.end()) return true;
  const Times& times = found->second;
  const Crew crew = CrewOf(loader);
  const bool is_free = times.is_late ? Of(late_busy_, crew) < Most(crew)
                                     : times.has_answered || Of(times.busy, crew) < Most(crew);
  // Alone it is in no other's way.
  return is_free || (busy_ == times.all_busy && queue_->Bytes() == queue_->BytesOf(service));
}

bool AnswerTimes::IsTooMany(const LoaderThread& loader, uint32_t service) const {
  const Crew crew = CrewOf(loader);
  return IsLate(service) && Of(late_busy_, crew) > Most(crew);
}

bool AnswerTimes::IsLate(uint32_t service) const {
  const auto found = services_.find(service);
  return found != services_.end() && found->second.is_late;
}

void AnswerTimes::Count(const LoaderThread& loader, uint32_t service, int change) {
  const auto found = services_.try_emplace(service).first;
  Times& times = found->second;
  const Crew crew = CrewOf(loader);
  times.busy[crew] += change;
  times.all_busy += change;
  busy_ += change;
  if (times.is_late) late_busy_[crew] += change;
  if (times.is_over && times.all_busy == 0) services_.erase(found);
}

void AnswerTimes::SetLate(Times* times, bool is_late) {
  if (times->is_late == is_late) return;
  times->is_late = is_late;
  for (const auto& [crew, count] : times->busy) late_busy_[crew] += is_late ? count : -count;
}

bool AnswerTimes::IsLateNow(uint32_t service, const Times& times, uint64_t now_ns) const {
  if (times.average_ns <= kLateNs) return false;
  return std::ranges::any_of(services_, [&](const auto& other) {
    const auto& [number, theirs] = other;
    return number != service && theirs.loaded_ns != 0 && now_ns < theirs.loaded_ns + kRecentNs &&
           times.average_ns > kLateFactor * theirs.average_ns;
  });
}

bool AnswerTimes::Note(uint32_t service, uint64_t now_ns, uint64_t took_ns, LoadStop stop,
                       uint64_t loaded) {
  const auto found = services_.find(service);
  // A refusal at once says nothing of what a load takes.
  if (found == services_.end() || (stop == LoadStop::kLater && took_ns < kLateNs)) return false;
  Times& times = found->second;
  const bool was_held = times.is_late || !times.has_answered;
  if (loaded == 0 && stop != LoadStop::kLater) {
    // What is in memory already says nothing of the device.
    times.has_answered = true;
    return was_held && !times.is_late;
  }
  const bool is_first = times.average_ns == 0;
  times.average_ns = is_first ? took_ns : times.average_ns - times.average_ns / 4 + took_ns / 4;
  if (stop == LoadStop::kLater) {
    times.average_ns = std::max(times.average_ns, took_ns);
  } else {
    times.has_answered = true;
  }
  if (loaded > 0) times.loaded_ns = now_ns;
  SetLate(&times, IsLateNow(service, times, now_ns));
  return was_held && !times.is_late && times.has_answered;
}

void AnswerTimes::Forget(uint32_t service) {
  const auto found = services_.find(service);
  if (found == services_.end()) return;
  found->second.is_over = true;
  found->second.loaded_ns = 0;
  if (found->second.all_busy == 0) services_.erase(found);
}

}  // namespace ppc
