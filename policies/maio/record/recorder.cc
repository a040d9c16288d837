// SPDX-License-Identifier: Apache-2.0
//
// Recording, see recorder.h.  Called from the policy's one thread.
#include "policies/maio/record/recorder.h"

#include <algorithm>
#include <utility>

namespace ppc::maio {
namespace {

constexpr size_t kLookBack = 32;             // extents that may be out of order
constexpr uint64_t kSideBySidePages = 1024;  // files read side by side keep their order by so much
constexpr uint32_t kMaxGapDoublings = 6;

}  // namespace

int32_t Recorder::FileOf(uint64_t number) const {
  auto it = by_number_.find(number);
  return it == by_number_.end() ? -1 : static_cast<int32_t>(it->second);
}

int32_t Recorder::AddFile(uint64_t number, const TemplateFile& file) {
  if (int32_t known = FileOf(number); known >= 0) return known;
  if (files_.size() >= kMaxFiles) return -1;
  by_number_[number] = static_cast<uint32_t>(files_.size());
  files_.push_back(file);
  return static_cast<int32_t>(files_.size()) - 1;
}

bool Recorder::HasTouched(uint32_t file, uint64_t page) const {
  return std::ranges::any_of(
      groups_, [&](const auto& group) { return HasTouched(group.first, file, page); });
}

bool Recorder::HasTouched(uint32_t id, uint32_t file, uint64_t page) const {
  const auto group = groups_.find(id);
  if (group == groups_.end()) return false;
  const auto covered = group->second.covered.find(file);
  if (covered == group->second.covered.end()) return false;
  const auto after = covered->second.upper_bound(page);
  return after != covered->second.begin() && std::prev(after)->second.end > page;
}

void Recorder::Touch(uint32_t id, uint32_t file, uint64_t first, uint64_t end, uint64_t now_ns,
                     bool may_repeat) {
  end = std::min(end, (files_[file].size + kPage - 1) / kPage);
  auto [it, is_new] = groups_.try_emplace(id);
  Group& group = it->second;
  if (is_new) {
    group.out.id = id;
    group.out.first_ms = SinceStart(now_ns);
    group.mark_ns = now_ns;
  }
  group.out.last_ms = SinceStart(now_ns);
  auto& covered = group.covered[file];
  may_repeat &= files_[file].kind != FileKind::kSmall;
  while (first < end) {
    auto next = covered.upper_bound(first);
    if (next != covered.begin()) {
      auto cover = std::prev(next);
      uint64_t known_end = std::min(cover->second.end, end);
      if (known_end > first) {
        uint64_t bytes = (known_end - first) * kPage;
        if (may_repeat && group.bytes - cover->second.pos >= kSecondPassBytes) {
          List(&group, file, first, known_end, now_ns);
        } else {
          group.out.repeat_bytes += bytes;
        }
        first = known_end;
        continue;
      }
    }
    uint64_t stop = next == covered.end() ? end : std::min(end, next->first);
    List(&group, file, first, stop, now_ns);
    first = stop;
  }
}

void Recorder::Swap(uint32_t a, uint32_t b) {
  auto of_a = groups_.extract(a);
  auto of_b = groups_.extract(b);
  for (auto [node, id] : {std::pair(&of_a, b), std::pair(&of_b, a)}) {
    if (node->empty()) continue;
    node->key() = node->mapped().out.id = id;
    groups_.insert(std::move(*node));
  }
  for (PhaseMark& mark : phases_) {
    for (auto& [id, bytes] : mark.positions) id = id == a ? b : id == b ? a : id;
  }
}

void Recorder::Mark(Phase phase, bool is_told, uint64_t now_ns) {
  const auto known = std::ranges::find(phases_, phase, &PhaseMark::phase);
  if (known != phases_.end() && (known->is_told || !is_told)) return;
  if (known != phases_.end()) phases_.erase(known);
  PhaseMark mark;
  mark.phase = phase;
  mark.is_told = is_told;
  mark.ms = SinceStart(now_ns);
  for (const auto& [id, group] : groups_) mark.positions.emplace_back(id, group.bytes);
  phases_.push_back(std::move(mark));
}

// Joins a range to the last extent of its file when that is close and recent.
bool Recorder::Extend(Group* group, uint32_t file, uint64_t first, uint64_t end) {
  auto last = group->last.find(file);
  if (last == group->last.end()) return false;
  if (group->size() - last->second > kLookBack) return false;
  Extent& e = group->recent[last->second - group->out.extents.size()];
  uint64_t e_end = e.page + e.pages;
  if (first < e_end) return false;
  uint64_t most = group->gap_pages;
  if (end - first <= kRowPages) most = std::max(most, kRowGapPages);
  if (first - e_end > most) return false;
  if (last->second + 1 != group->size() && e.pages >= kSideBySidePages) return false;
  if (first > e_end) {
    // The gap must be new, else its pages would be listed twice.
    const auto& covered = group->covered[file];
    auto next = covered.upper_bound(e_end);
    if (next != covered.end() && next->first < first) return false;
    if (next != covered.begin() && std::prev(next)->second.end > e_end) return false;
    group->out.overread_bytes += (first - e_end) * kPage;
  }
  uint64_t added = (end - e_end) * kPage;
  e.pages = end - e.page;
  group->bytes += added;
  bytes_ += added;
  Cover(group, file, e_end, end);
  return true;
}

void Recorder::List(Group* group, uint32_t file, uint64_t first, uint64_t end, uint64_t now_ns) {
  if (group->full) return;
  if (files_[file].kind != FileKind::kSmall) {
    const bool has_begun = weight_bytes_ >= kWeightsBeginBytes;
    weight_bytes_ += (end - first) * kPage;
    if (!has_begun && weight_bytes_ >= kWeightsBeginBytes) Mark(Phase::kWeights, false, now_ns);
  }
  uint64_t mark = group->bytes / kTimeMarkBytes;
  if (!Extend(group, file, first, end)) {
    if (group->size() >= kMaxExtents) Shrink(group);
    if (group->full) return;
    if (group->recent.size() >= 2 * kLookBack) Pack(group, kLookBack);
    group->last[file] = group->size();
    group->recent.push_back({file, first, end - first});
    group->bytes += (end - first) * kPage;
    bytes_ += (end - first) * kPage;
    Cover(group, file, first, end);
  }
  for (; mark < group->bytes / kTimeMarkBytes; mark++) {
    group->out.time_ms.push_back(
        static_cast<uint32_t>((std::max(now_ns, group->mark_ns) - group->mark_ns) / 1'000'000));
    group->mark_ns = now_ns;
  }
}

// Marks [first, end) as listed now; neighbours of about the same position are joined.
void Recorder::Cover(Group* group, uint32_t file, uint64_t first, uint64_t end) {
  auto& covered = group->covered[file];
  auto it = covered.lower_bound(first);
  if (it != covered.begin()) {
    auto prev = std::prev(it);
    if (prev->second.end > first) {  // split: only the rest keeps the old position
      Covered old = prev->second;
      prev->second.end = first;
      if (old.end > end) covered[end] = old;
    }
  }
  it = covered.lower_bound(first);
  while (it != covered.end() && it->first < end) {
    Covered old = it->second;
    it = covered.erase(it);
    if (old.end > end) {
      covered[end] = old;
      break;
    }
  }
  it = covered.lower_bound(first);
  if (it != covered.begin()) {
    auto prev = std::prev(it);
    if (prev->second.end == first && group->bytes - prev->second.pos < kSecondPassBytes / 4) {
      prev->second.end = end;
      return;
    }
  }
  covered[first] = {end, group->bytes};
}

void Recorder::Pack(Group* group, size_t keep) {
  const auto end = group->recent.end() - static_cast<std::ptrdiff_t>(keep);
  for (auto e = group->recent.begin(); e != end; ++e) group->out.extents.push_back(*e);
  group->recent.erase(group->recent.begin(), end);
}

void Recorder::Forget(uint32_t file) {
  for (auto& [id, group] : groups_) {
    group.covered.erase(file);
    group.last.erase(file);
  }
}

// Too many extents: merge over wider gaps, from the start.
void Recorder::Shrink(Group* group) {
  if (group->gap_pages >= kMergeGapPages << kMaxGapDoublings) {
    group->full = true;
    return;
  }
  group->gap_pages *= 2;
  std::vector<Extent> merged;
  Pack(group, 0);
  for (const Extent& e : group->out.extents) {
    if (!merged.empty()) {
      Extent& last = merged.back();
      uint64_t last_end = last.page + last.pages;
      if (last.file == e.file && e.page >= last_end && e.page - last_end <= group->gap_pages) {
        group->out.overread_bytes += (e.page - last_end) * kPage;
        last.pages = e.page + e.pages - last.page;
        continue;
      }
    }
    merged.push_back(e);
  }
  group->full = merged.size() > kMaxExtents / 4 * 3;
  group->out.extents = merged;
  group->last.clear();
}

bool Recorder::HasBeginnings() const {
  std::vector<bool> touched(files_.size());
  std::vector<bool> begun(files_.size());
  for (const auto& [id, group] : groups_) {
    for (const auto& [file, covered] : group.covered) {
      if (covered.empty()) continue;
      touched[file] = true;
      if (covered.begin()->first == 0) begun[file] = true;
    }
  }
  for (size_t i = 0; i < files_.size(); i++) {
    if (HasContents(files_[i].kind) && touched[i] && !begun[i]) return false;
  }
  return true;
}

Template Recorder::Finish(const std::string& service_id, uint32_t flags, uint64_t created_ns) && {
  Template t;
  t.service_id = service_id;
  t.flags = flags;
  t.created_ns = created_ns;
  t.files = std::move(files_);
  t.phases = std::move(phases_);
  for (auto& [id, group] : groups_) {
    if (group.size() == 0) continue;
    Pack(&group, 0);
    if (group.full) t.flags |= kOverflow;
    t.groups.push_back(std::move(group.out));
  }
  groups_.clear();
  return t;
}

}  // namespace ppc::maio
