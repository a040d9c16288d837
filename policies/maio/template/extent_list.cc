// SPDX-License-Identifier: Apache-2.0
#include "policies/maio/template/extent_list.h"

#include <algorithm>

namespace ppc::maio {
namespace {

// First byte of a series; then varints: the file, if it is another one; the distance from the end
// of the extent before; its pages, if they are others; stride and count, if it is more than one.
enum SeriesFlag : uint8_t { kOtherFile = 1, kOtherPages = 2, kMany = 4 };

void PutVarint(uint64_t value, std::vector<uint8_t>* out) {
  for (; value >= 0x80; value >>= 7) out->push_back(static_cast<uint8_t>(value | 0x80));
  out->push_back(static_cast<uint8_t>(value));
}

// Distances are modulo 2^64, so that what no template may have comes back as it was, too.
uint64_t FoldSign(uint64_t distance) {
  return distance << 1 ^ (distance >> 63 != 0 ? ~uint64_t{0} : 0);
}
uint64_t UnfoldSign(uint64_t folded) {
  return folded >> 1 ^ ((folded & 1) != 0 ? ~uint64_t{0} : 0);
}

uint64_t TakeVarint(const std::vector<uint8_t>& bytes, size_t* at) {
  uint64_t value = 0;
  for (unsigned shift = 0;; shift += 7) {
    const uint8_t byte = bytes[(*at)++];
    value |= uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) return value;
  }
}

}  // namespace

ExtentList::Iterator::Iterator(const ExtentList& list) : list_(&list), left_(list.size_) {
  if (left_ != 0) Next();
}

void ExtentList::Iterator::Next() {
  const Extent before = series_.count != 0 ? series_.At(series_.count - 1) : Extent();
  i_ = 0;
  if (at_ == list_->packed_.size()) {
    series_ = list_->last_;
    return;
  }
  const uint8_t flags = list_->packed_[at_++];
  Series next = {before, 0, 1};
  if ((flags & kOtherFile) != 0)
    next.first.file = static_cast<uint32_t>(TakeVarint(list_->packed_, &at_));
  next.first.page = before.page + before.pages + UnfoldSign(TakeVarint(list_->packed_, &at_));
  if ((flags & kOtherPages) != 0) next.first.pages = TakeVarint(list_->packed_, &at_);
  if ((flags & kMany) != 0) {
    next.stride = TakeVarint(list_->packed_, &at_);
    next.count = TakeVarint(list_->packed_, &at_);
  }
  series_ = next;
}

Extent ExtentList::operator[](size_t index) const {
  Iterator it = begin();
  for (; index > 0; index--) ++it;
  return *it;
}

std::vector<Extent> ExtentList::ToVector() const {
  std::vector<Extent> extents;
  extents.reserve(size_);
  for (const Extent& e : *this) extents.push_back(e);
  return extents;
}

bool ExtentList::operator==(const ExtentList& other) const {
  return size_ == other.size_ && std::equal(begin(), end(), other.begin());
}

void ExtentList::Append(const Series& series) {
  size_ += series.count;
  const Extent& next = series.first;
  if (last_.count != 0 && last_.first.file == next.file && last_.first.pages == next.pages) {
    const uint64_t stride = next.page - (last_.first.page + (last_.count - 1) * last_.stride);
    const bool goes_on = last_.count == 1 || stride == last_.stride;
    // Only ahead and apart: others are no series in the file, either.
    const bool is_ahead = stride >= next.pages && stride >> 63 == 0;
    if (goes_on && is_ahead && (series.count == 1 || series.stride == stride)) {
      last_.stride = stride;
      last_.count += series.count;
      return;
    }
  }
  if (last_.count != 0) Pack(last_);
  last_ = series;
}

// Lists that grow side by side would leave holes in the heap that are as large as they are.  In a
// block that malloc maps by itself only what is in use takes memory.
void ExtentList::Grow() {
  constexpr size_t kMostOfOne = 64;  // bytes of a series
  constexpr size_t kSmall = 4 << 10;
  constexpr size_t kMapped = 256 << 10;
  const size_t size = packed_.size();
  if (size < kSmall || packed_.capacity() - size >= kMostOfOne) return;
  packed_.reserve(std::max(2 * size, kMapped));
}

void ExtentList::Pack(const Series& series) {
  Grow();
  const Extent& first = series.first;
  const uint8_t flags = static_cast<uint8_t>((first.file != before_.file ? kOtherFile : 0) |
                                             (first.pages != before_.pages ? kOtherPages : 0) |
                                             (series.count != 1 ? kMany : 0));
  packed_.push_back(flags);
  if ((flags & kOtherFile) != 0) PutVarint(first.file, &packed_);
  PutVarint(FoldSign(first.page - (before_.page + before_.pages)), &packed_);
  if ((flags & kOtherPages) != 0) PutVarint(first.pages, &packed_);
  if ((flags & kMany) != 0) {
    PutVarint(series.stride, &packed_);
    PutVarint(series.count, &packed_);
  }
  before_ = series.At(series.count - 1);
}

}  // namespace ppc::maio
