// SPDX-License-Identifier: Apache-2.0
#include "policies/maio/template/edges.h"

#include <algorithm>

namespace ppc::maio {
namespace {

constexpr uint64_t kNoKey = ~0ull;
constexpr size_t kBlockExtents = 512;
constexpr unsigned kPageShift = 12;
constexpr uint64_t kEndBit = 1u << 11;
static_assert(kMaxTemplateGroups <= kEndBit);
static_assert(uint64_t{kMaxFiles} * (kMaxFileBytes / kPage + 1) < 1ull << (63 - kPageShift));

}  // namespace

uint64_t EdgeReader::KeyOf(uint32_t file, uint64_t page, uint64_t slot, bool is_end) const {
  return (base_[file] + page) << kPageShift | (is_end ? kEndBit : 0) | slot;
}

EdgeReader::EdgeReader(const Template& t, std::function<bool(uint32_t)> want, size_t window)
    : template_(t), wanted_(t.files.size()), window_(window) {
  uint64_t base = 0;
  for (uint32_t file = 0; file < wanted_.size(); file++) {
    wanted_[file] = want(file);
    base_.push_back(base);
    base += t.files[file].size / kPage + 2;  // the end of a file is not the next one's beginning
  }
  base_.push_back(base);
  for (uint32_t slot = 0; slot < t.groups.size(); slot++) Index(slot);
}

bool EdgeReader::Next(Edge* out) {
  if (at_ == edges_.size()) {
    if (to_ == kNoKey) return false;
    from_ = to_;
    Fill();
    if (edges_.empty()) return false;
  }
  const auto [key, times] = edges_[at_++];
  const uint64_t page = key >> kPageShift;
  while (page >= base_[file_ + 1]) file_++;
  *out = {file_, page - base_[file_], static_cast<uint32_t>(key & (kEndBit - 1)),
          (key & kEndBit) != 0, static_cast<uint32_t>(times)};
  return true;
}

void EdgeReader::Index(uint32_t slot) {
  const ExtentList& extents = template_.groups[slot].extents;
  size_t i = 0;
  for (auto it = extents.begin(); it != extents.end(); ++it, i++) {
    if (i % kBlockExtents == 0) blocks_.push_back({it, slot});
    const Extent e = *it;
    if (!wanted_[e.file]) continue;
    Block& block = blocks_.back();
    block.least = std::min(block.least, KeyOf(e.file, e.page, slot, false));
    block.most = std::max(block.most, KeyOf(e.file, e.page + e.pages, slot, true));
  }
}

// The smallest keys from from_ on, at most as many as a window holds.
void EdgeReader::Fill() {
  // Taken from what the window before had, so that few are collected and sorted in vain.
  to_ = span_ != 0 && span_ < kNoKey / 4 ? from_ + span_ : kNoKey;
  for (Collect(); edges_.empty() && to_ != kNoKey; Collect()) {
    span_ *= 2;
    to_ = span_ < kNoKey / 4 ? from_ + span_ : kNoKey;
  }
  if (edges_.empty()) return;
  span_ = edges_.size() < window_ / 2 && span_ != 0 ? 2 * span_ : edges_.back().key - from_ + 1;
}

void EdgeReader::Collect() {
  edges_.clear();
  at_ = 0;
  for (const Block& block : blocks_) {
    if (block.most < from_ || block.least >= to_) continue;
    const auto end = template_.groups[block.slot].extents.end();
    auto it = block.first;
    for (size_t i = 0; i < kBlockExtents && it != end; i++, ++it) {
      const Extent e = *it;
      if (!wanted_[e.file]) continue;
      Keep(KeyOf(e.file, e.page, block.slot, false));
      Keep(KeyOf(e.file, e.page + e.pages, block.slot, true));
    }
  }
  Sort();
}

void EdgeReader::Keep(uint64_t key) {
  if (key < from_ || key >= to_) return;
  edges_.push_back({key, 1});
  if (edges_.size() < 2 * window_) return;
  Sort();
  if (edges_.size() <= window_) return;
  to_ = edges_[window_].key;
  edges_.resize(window_);
}

// And counts those that are the same.
void EdgeReader::Sort() {
  std::ranges::sort(edges_, {}, &Counted::key);
  size_t kept = 0;
  for (size_t i = 0; i < edges_.size(); i++) {
    if (kept != 0 && edges_[kept - 1].key == edges_[i].key) {
      edges_[kept - 1].times += edges_[i].times;
    } else {
      edges_[kept++] = edges_[i];
    }
  }
  edges_.resize(kept);
}

}  // namespace ppc::maio
