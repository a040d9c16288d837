// SPDX-License-Identifier: Apache-2.0
//
// The extents of a group in order, packed: some five bytes each, a series of equal extents at equal
// distance not much more than one of them.  What a template file can ask for stays that small when
// it is decoded.  Reads go through in order; only the last extents are changed, by taking them
// back.
//
// Threads: values, no shared state.
#ifndef POLICIES_MAIO_TEMPLATE_EXTENT_LIST_H_
#define POLICIES_MAIO_TEMPLATE_EXTENT_LIST_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <span>
#include <vector>

namespace ppc::maio {

struct Extent {
  uint32_t file = 0;
  uint64_t page = 0;
  uint64_t pages = 0;

  bool operator==(const Extent&) const = default;
};

class ExtentList {
  // `count` extents like the first, each `stride` pages behind the one before.
  struct Series {
    Extent first;
    uint64_t stride = 0;
    uint64_t count = 0;

    Extent At(uint64_t i) const { return {first.file, first.page + i * stride, first.pages}; }
  };

 public:
  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = Extent;
    using difference_type = std::ptrdiff_t;
    using pointer = const Extent*;
    using reference = Extent;

    Iterator() = default;
    Extent operator*() const { return series_.At(i_); }
    Iterator& operator++() {
      --left_;
      if (++i_ >= series_.count && left_ != 0) Next();
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(const Iterator& other) const { return left_ == other.left_; }

   private:
    friend class ExtentList;
    explicit Iterator(const ExtentList& list);
    void Next();

    const ExtentList* list_ = nullptr;
    size_t at_ = 0;  // in the packed bytes
    size_t left_ = 0;
    Series series_;
    uint64_t i_ = 0;  // in series_
  };
  using value_type = Extent;
  using const_iterator = Iterator;

  ExtentList() = default;
  ExtentList(std::initializer_list<Extent> extents) : ExtentList(std::span(extents)) {}
  // Implicit, as for a vector.
  ExtentList(std::span<const Extent> extents) {  // NOLINT(google-explicit-constructor)
    for (const Extent& e : extents) push_back(e);
  }
  ExtentList(const std::vector<Extent>& extents)  // NOLINT(google-explicit-constructor)
      : ExtentList(std::span(extents)) {}

  void push_back(const Extent& e) { Append({e, 0, 1}); }
  // count > 0 extents, each stride pages behind the one before.
  void AppendSeries(const Extent& first, uint64_t stride, uint64_t count) {
    if (count != 0) Append({first, stride, count});
  }
  void shrink_to_fit() { packed_.shrink_to_fit(); }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  Extent back() const { return last_.At(last_.count - 1); }  // of one that is not empty
  Extent operator[](size_t index) const;                     // walks there
  Iterator begin() const { return Iterator(*this); }
  Iterator end() const { return {}; }
  std::vector<Extent> ToVector() const;
  // Calls see(extent, stride, count) for each series, in order.
  template <typename See>
  void ForEachSeries(See see) const {
    for (Iterator it = begin(); it.left_ != 0;) {
      see(it.series_.first, it.series_.stride, it.series_.count);
      it.left_ -= it.series_.count;
      if (it.left_ != 0) it.Next();
    }
  }
  size_t held_bytes() const { return packed_.capacity(); }
  // The order of the same extents only: series may be cut otherwise.
  bool operator==(const ExtentList& other) const;

 private:
  void Append(const Series& series);
  void Pack(const Series& series);
  void Grow();

  std::vector<uint8_t> packed_;  // all series but the last
  Extent before_;                // the last one of packed_
  Series last_;
  size_t size_ = 0;
};

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_TEMPLATE_EXTENT_LIST_H_
