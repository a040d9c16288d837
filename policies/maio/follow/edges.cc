// SPDX-License-Identifier: Apache-2.0
#include "policies/maio/follow/edges.h"

#include <algorithm>

namespace ppc::maio {
namespace {

constexpr uint64_t kNoKey = ~0ull;
constexpr unsigned kPageShift = 8;
constexpr unsigned kFileShift = 41;  // pages need 33 bits, the end of the largest file included
constexpr uint64_t kEndBit = 1u << 7;
static_assert(kMaxFileBytes / kPage < 1ull << (kFileShift - kPageShift));
static_assert(kMaxGroups <= kEndBit && kMaxFiles <= 1ull << (64 - kFileShift));

uint64_t KeyOf(uint32_t file, uint64_t page, uint64_t slot, bool is_end) {
  return uint64_t{file} << kFileShift | page << kPageShift | (is_end ? kEndBit : 0) | slot;
}

}  // namespace

EdgeReader::EdgeReader(const Template& t, std::function<bool(uint32_t)> want, size_t window)
    : template_(t), wanted_(t.files.size()), window_(window) {
  for (uint32_t file = 0; file < wanted_.size(); file++) wanted_[file] = want(file);
}

bool EdgeReader::Next(Edge* out) {
  if (at_ == edges_.size()) {
    if (to_ == kNoKey) return false;
    from_ = to_;
    Fill();
    if (edges_.empty()) return false;
  }
  const auto [key, times] = edges_[at_++];
  *out = {static_cast<uint32_t>(key >> kFileShift),
          key >> kPageShift & ((1ull << (kFileShift - kPageShift)) - 1),
          static_cast<uint32_t>(key & (kEndBit - 1)), (key & kEndBit) != 0,
          static_cast<uint32_t>(times)};
  return true;
}

// The smallest keys from from_ on, as many as a window holds.
void EdgeReader::Fill() {
  edges_.clear();
  at_ = 0;
  to_ = kNoKey;
  for (uint32_t slot = 0; slot < template_.groups.size(); slot++) {
    template_.groups[slot].extents.ForEachSeries(
        [&](const Extent& e, uint64_t stride, uint64_t count) {
          if (!wanted_[e.file]) return;
          const uint64_t last_page = e.page + (count - 1) * stride;
          if (KeyOf(e.file, last_page + e.pages, slot, true) < from_ ||
              KeyOf(e.file, e.page, slot, false) >= to_)
            return;
          for (uint64_t i = 0; i < count; i++) {
            Keep(KeyOf(e.file, e.page + i * stride, slot, false));
            Keep(KeyOf(e.file, e.page + i * stride + e.pages, slot, true));
          }
        });
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
