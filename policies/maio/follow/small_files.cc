// SPDX-License-Identifier: Apache-2.0
//
// The list of small files and how far it is loaded, see small_files.h.  Called from the policy's
// one thread.
#include "policies/maio/follow/small_files.h"

#include <algorithm>
#include <utility>

#include "policies/maio/base/tuning.h"
#include "policies/maio/follow/scattered.h"

namespace ppc::maio {
namespace {

constexpr uint32_t kNone = ~0u;

bool IsTaken(const TemplateFile& file, bool is_scattered) {
  return is_scattered || file.kind == FileKind::kSmall;
}

// Bytes of the common group's sequence when the model began to be read; all, if that is not known.
uint64_t BeforeWeights(const Template& t) {
  for (const PhaseMark& mark : t.phases) {
    if (mark.phase != Phase::kWeights) continue;
    for (auto [group, bytes] : mark.positions) {
      if (group == kCommonGroup) return bytes;
    }
    return 0;
  }
  return ~0ull;
}

}  // namespace

SmallFiles::SmallFiles(Template* t, std::vector<uint64_t>* numbers, uint32_t service,
                       uint64_t cookie, bool is_many)
    : service_(service), cookie_(cookie & ~kPartMask), is_many_(is_many) {
  const std::vector<bool> is_scattered = ScatteredFiles(*t);
  TakeExtents(t, *numbers, is_scattered);
  TakeFiles(t, numbers, is_scattered);
  parts_.shrink_to_fit();
  for (uint32_t i = 0; i < parts_.size(); i++) by_file_.push_back({parts_[i].number, i});
  std::ranges::sort(by_file_);
  learnt_ = std::ranges::lower_bound(by_file_, Place{kUnresolved, 0}) - by_file_.begin();
  finished_ = parts_.empty();
}

// Parts in their order, out of the template's groups.
void SmallFiles::TakeExtents(Template* t, const std::vector<uint64_t>& numbers,
                             const std::vector<bool>& is_scattered) {
  // What processes of no worker read comes first, as a recording has it; in older ones each worker
  // has its own, and who lists a file first tells its order.
  std::vector<TemplateGroup*> groups;
  for (TemplateGroup& group : t->groups) groups.push_back(&group);
  std::ranges::stable_partition(groups, [](auto* group) { return group->id == kCommonGroup; });
  std::vector<uint32_t> lister(t->files.size(), kNone);
  Cells cells(*t, is_scattered);
  const uint64_t before_weights = BeforeWeights(*t);
  for (TemplateGroup* group : groups) {
    ExtentList rest;
    uint64_t pos = 0;
    for (const Extent& e : group->extents) {
      if (!IsTaken(t->files[e.file], is_scattered[e.file])) {
        rest.push_back(e);
      } else if (is_scattered[e.file]) {
        cells.ForEachNew(e, [&](const Extent& cell) {
          AddParts(numbers[cell.file], t->files[cell.file], cell, true);
        });
      } else if (lister[e.file] == kNone || lister[e.file] == group->id) {
        lister[e.file] = group->id;
        AddParts(numbers[e.file], t->files[e.file], e, IsLibrary(t->files[e.file].path));
      }
      if (group->id == kCommonGroup && pos < before_weights)
        early_ = static_cast<uint32_t>(parts_.size());
      pos += e.pages * kPage;
    }
    group->extents = std::move(rest);
  }
  if (before_weights == ~0ull) early_ = static_cast<uint32_t>(parts_.size());
}

// Out of the template's table; the files that stay have new places.
void SmallFiles::TakeFiles(Template* t, std::vector<uint64_t>* numbers,
                           const std::vector<bool>& is_scattered) {
  std::vector<uint32_t> places(t->files.size(), kNone);
  std::vector<TemplateFile> files;
  std::vector<uint64_t> kept;
  for (uint32_t i = 0; i < t->files.size(); i++) {
    if (IsTaken(t->files[i], is_scattered[i])) {
      stats_.files += (*numbers)[i] != 0 ? 1 : 0;
      continue;
    }
    places[i] = static_cast<uint32_t>(files.size());
    files.push_back(std::move(t->files[i]));
    kept.push_back((*numbers)[i]);
  }
  if (files.size() != places.size()) {
    for (TemplateGroup& group : t->groups) {
      ExtentList moved;
      group.extents.ForEachSeries([&](const Extent& e, uint64_t stride, uint64_t count) {
        moved.AppendSeries({places[e.file], e.page, e.pages}, stride, count);
      });
      moved.shrink_to_fit();
      group.extents = std::move(moved);
    }
  }
  t->files = std::move(files);
  *numbers = std::move(kept);
}

void SmallFiles::AddParts(uint64_t number, const TemplateFile& file, const Extent& extent,
                          bool stays_mapped) {
  if (number == 0) return;
  uint64_t at = extent.page * kPage;
  const uint64_t end = std::min(at + extent.pages * kPage, file.size);
  while (at < end && parts_.size() < kMaxParts) {
    const uint64_t bytes = std::min(end - at, kPartBytes);
    parts_.push_back(
        {number, at, static_cast<uint32_t>(bytes), State::kPending, 0, stays_mapped, false});
    stats_.bytes += bytes;
    at += bytes;
  }
}

uint32_t SmallFiles::Learn(std::span<const FileLookup> found) {
  const auto known_end = by_file_.begin() + static_cast<std::ptrdiff_t>(learnt_);
  auto it = known_end;
  for (; it != by_file_.end() && (it->number & ~kUnresolved) - looked_up_ < found.size(); ++it) {
    Part& part = parts_[it->part];
    const FileLookup& one = found[(it->number & ~kUnresolved) - looked_up_];
    part.number = it->number = one.info.file;
    if (part.number == 0) part.state = State::kPresent;
    if (!one.is_gone) continue;
    stats_.bytes -= part.bytes;
    stats_.gone += part.bytes;
  }
  std::sort(known_end, it);
  std::inplace_merge(by_file_.begin(), known_end, it);
  learnt_ = it - by_file_.begin();
  looked_up_ += found.size();
  const auto gone = static_cast<uint32_t>(std::ranges::count(found, true, &FileLookup::is_gone));
  stats_.files -= gone;
  return gone;
}

bool SmallFiles::Knows(uint64_t file) const {
  const auto it = std::ranges::lower_bound(by_file_, Place{file, 0});
  return it != by_file_.end() && it->number == file;
}

void SmallFiles::Touch(uint64_t file, uint64_t offset, uint64_t size, bool is_miss) {
  if (!is_miss) return;
  auto it = std::ranges::lower_bound(by_file_, Place{file, 0});
  for (; it != by_file_.end() && it->number == file; ++it) {
    Part& part = parts_[it->part];
    if (part.offset >= offset + size || part.offset + part.bytes <= offset) continue;
    if (part.state == State::kPresent) continue;
    if (!part.is_missed) stats_.missed += part.bytes;
    part.is_missed = true;
    if (part.state == State::kPending) Follow(it->part);
    // What of it the reader does not read itself is not worth another request.
    if (part.state == State::kPending && size >= part.bytes) part.state = State::kPresent;
  }
}

// The reader is ahead of what is asked for: go on from where it is.  What it skipped and has not
// read itself comes between: of a program that begins, libraries are read while most of it is not.
void SmallFiles::Follow(uint32_t part) {
  const bool is_near = misses_ != 0 && part > last_miss_ && part - last_miss_ <= kNearParts;
  misses_ = is_near ? misses_ + 1 : 1;
  last_miss_ = part;
  if (misses_ < kMissesToFollow || part <= next_) return;
  Skip(next_);
  was_skipped_ = true;  // first where the reader is
  next_ = part;
}

void SmallFiles::Skip(uint32_t part) {
  skipped_ = has_skipped_ ? std::min(skipped_, part) : part;
  has_skipped_ = true;
}

bool SmallFiles::FindSkipped() {
  while (skipped_ < next_ && parts_[skipped_].state != State::kPending) skipped_++;
  has_skipped_ = skipped_ < next_;
  return has_skipped_;
}

bool SmallFiles::FindNext() {
  while (next_ < parts_.size() && parts_[next_].state != State::kPending) next_++;
  const bool is_end = next_ >= parts_.size();
  if (has_skipped_ && (is_end || !was_skipped_) && FindSkipped()) {
    at_ = skipped_;
    return true;
  }
  at_ = next_;
  finished_ = is_end;
  return !is_end;
}

bool SmallFiles::MayBe(const miss_io& event) {
  const FileKind kind =
      event.path != nullptr ? KindOfPath(event.path, event.file_bytes) : FileKind::kOther;
  return kind == FileKind::kSmall || (kind == FileKind::kOther && event.file_bytes <= kSmallBytes);
}

// What programs read before the model comes before it, until the model is being read; then, and of
// what they read later, a quarter: it is little, and a reader of it waits for each file by itself.
uint64_t SmallFiles::PlanBeside(uint64_t max_bytes, bool is_begun, uint64_t learnt_ns,
                                uint64_t now_ns, IoList* out) {
  constexpr uint64_t kShare = 4;
  if (finished_) return 0;
  if (!IsEarly() || is_begun) return Plan(max_bytes / kShare, now_ns, out);
  const uint64_t asked = Plan(max_bytes, now_ns, out);
  // What is being looked up comes first, too, unless that takes too long.
  const bool is_awaited = IsLearning() && now_ns < learnt_ns + kLookUpsNs;
  return IsEarly() && is_awaited ? max_bytes : asked;
}

uint64_t SmallFiles::Plan(uint64_t max_bytes, uint64_t now_ns, IoList* out) {
  // What is refused is never reported.
  if (std::exchange(is_told_, false) || under_way_ == 0) told_ns_ = now_ns;
  if (now_ns > told_ns_ + kExpiryNs) under_way_ = 0;
  uint64_t asked = 0;
  while (!finished_ && asked < max_bytes && under_way_ < kMostUnderWay && FindNext()) {
    Part& part = parts_[at_];
    if ((part.number & kUnresolved) != 0) break;
    ppc_io& io = out->Add(part.number, part.offset, part.bytes);
    static_assert(kMaxGroups == PPC_MAX_GROUPS);
    io.group = kGroup;
    io.service = service_;
    io.flags = is_many_ ? PPC_IO_MANY : 0;
    io.cookie = cookie_ | at_;
    part.state = State::kAsked;
    part.tries++;
    // A page at least is what it takes of memory.
    asked += std::max<uint64_t>(part.bytes, kPage);
    stats_.asked += part.bytes;
    under_way_++;
    was_skipped_ = at_ < next_;
  }
  if (!finished_) (void)FindNext();
  return asked;
}

bool SmallFiles::Release(bool can_unmap, const Evictor::Held& held, IoList* out) {
  for (size_t asked = 0; released_ < parts_.size() && asked < kMostUnderWay; released_++) {
    const Part& part = parts_[released_];
    if (part.number == 0 || (part.number & kUnresolved) != 0) continue;
    if (keeps_preexisting_ && !part.is_read) continue;
    const uint64_t pages = (part.offset % kPage + part.bytes + kPage - 1) / kPage;
    if (held(part.number, part.offset / kPage, pages)) continue;
    ppc_io& io = out->Add(part.number, part.offset, part.bytes);
    io.flags = can_unmap && !part.stays_mapped ? PPC_IO_UNMAP : 0;
    io.cookie = cookie_ | released_;
    asked++;
  }
  return released_ < parts_.size();
}

void SmallFiles::Done(const ppc_result& result) {
  if (result.kind != PPC_LOADED) return;
  stats_.loaded += result.ok;
  stats_.redundant += result.resident;
  const auto index = static_cast<uint32_t>(result.cookie & kPartMask);
  if (index >= parts_.size()) return;
  Part& part = parts_[index];
  part.is_read |= result.ok != 0;
  if (part.state != State::kAsked) return;
  under_way_ -= std::min<size_t>(under_way_, 1);
  is_told_ = true;
  if (result.interrupted != 0 && result.error == 0 && part.tries < kMaxTries) {
    part.state = State::kPending;
    finished_ = false;
    if (index < next_) Skip(index);
    return;
  }
  part.state = State::kPresent;
}

}  // namespace ppc::maio
