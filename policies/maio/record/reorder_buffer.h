// SPDX-License-Identifier: Apache-2.0
//
// Touches in the order in which they happened.  A backend that gathers a reader's accesses tells
// the last of a file when it finds the reader gone from there, after what it has read of the next
// one.
#ifndef POLICIES_MAIO_RECORD_REORDER_BUFFER_H_
#define POLICIES_MAIO_RECORD_REORDER_BUFFER_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>

#include "policies/maio/base/tuning.h"

namespace ppc::maio {

struct FileTouch {
  uint64_t ns = 0;
  uint32_t group = 0;
  uint32_t file = 0;
  uint64_t first_page = 0;
  uint64_t end_page = 0;
  bool may_repeat = true;  // see Recorder::Touch()
};

class ReorderBuffer {
 public:
  void Put(const FileTouch& touched) {
    newest_ns_ = std::max(newest_ns_, touched.ns);
    auto at = waiting_.end();
    while (at != waiting_.begin() && (at - 1)->ns > touched.ns) --at;
    waiting_.insert(at, touched);
  }
  // It is so late: what is older than that by more than kLateNs has come.
  void AdvanceTo(uint64_t now_ns) { newest_ns_ = std::max(newest_ns_, now_ns); }
  // The oldest, where nothing older is to come any more.
  std::optional<FileTouch> Next() {
    const bool is_due = !waiting_.empty() && (waiting_.front().ns + kLateNs <= newest_ns_ ||
                                              waiting_.size() > kMostLate);
    return is_due ? Oldest() : std::nullopt;
  }
  std::optional<FileTouch> Oldest() {
    if (waiting_.empty()) return std::nullopt;
    const FileTouch oldest = waiting_.front();
    waiting_.pop_front();
    return oldest;
  }

 private:
  std::deque<FileTouch> waiting_;
  uint64_t newest_ns_ = 0;
};

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_RECORD_REORDER_BUFFER_H_
