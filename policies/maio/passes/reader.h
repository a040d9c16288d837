// SPDX-License-Identifier: Apache-2.0
//
// Where a reader is that passes over its model again and again: the model cut into stripes, in the
// order of the files, and a turn, which counts stripes from pass to pass.  Owns nothing of what is
// resident, see passes.h.  Called from the policy's one thread.
#ifndef POLICIES_MAIO_PASSES_READER_H_
#define POLICIES_MAIO_PASSES_READER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "policies/maio/base/shared_read_detector.h"
#include "policies/maio/base/tuning.h"
#include "policies/maio/follow/layout.h"

namespace ppc::maio {

// Part of a file.  The first `kept` bytes of it are to stay resident.
struct Stripe {
  uint64_t file = 0;  // number
  uint64_t offset = 0;
  uint64_t bytes = 0;
  uint64_t kept = 0;
  uint64_t seen = 0;  // turn of the last event in it, + 1
  int unseen = 0;     // turns in a row without any
};

// A pass that has ended.  Bytes and ns.
struct Pass {
  uint64_t ns = 0;           // without the rest
  uint64_t rest_ns = 0;      // of kPassRestNs and more, between its last access and the next pass
  uint64_t missed = 0;       // by the reader
  uint64_t kept_missed = 0;  // of that, in what was to stay
  bool is_shared = false;    // by several processes
  bool is_in_order = false;  // over the model, with rests or without, and one process's
  bool is_whole = false;     // the same without rests, and its begin was seen
};

class PassReader {
 public:
  explicit PassReader(const Layout& layout);

  struct Access {
    uint64_t file = 0;
    uint64_t offset = 0;
    uint64_t bytes = 0;
    bool is_miss = false;
    uint64_t now_ns = 0;
    SharedReadDetector::Process process = {};
  };
  // The pass that this access has ended, if it has.
  std::optional<Pass> Observe(const Access& access);
  // What a pass would be that goes on as the present one has gone so far; nothing before a quarter
  // of the model was missed in it.
  std::optional<Pass> Expected() const;

  // Stripes that the reader has begun since the first of the first pass; its place is turn() %
  // count.
  uint64_t turn() const { return turn_; }
  // Stripes from the reader on to a place, round the end; count(): it is in none.
  uint64_t Ahead(uint64_t file, uint64_t offset) const;
  size_t count() const { return stripes_.size(); }
  uint64_t bytes() const { return bytes_; }
  uint64_t stripe_bytes() const { return stripe_bytes_; }
  Stripe& At(uint64_t turn) { return stripes_[turn % stripes_.size()]; }
  std::vector<Stripe>& stripes() { return stripes_; }
  const std::vector<Stripe>& stripes() const { return stripes_; }

 private:
  struct Place {
    uint32_t first = 0;
    uint32_t count = 0;
  };
  // How far two events of one pass may lie apart: threads that share the work, parts of the model
  // that this pass does not read.
  uint64_t Stray() const { return std::max<uint64_t>(2, count() / 8); }
  std::optional<uint64_t> IndexOf(uint64_t file, uint64_t offset) const;
  Pass EndPass(uint64_t place, uint64_t now_ns);
  bool IsInOrder() const;
  bool HasRested() const { return longest_rest_ns_ >= kPassRestNs; }

  std::vector<Stripe> stripes_;
  std::unordered_map<uint64_t, Place> files_;  // by number
  uint64_t stripe_bytes_ = 0;
  uint64_t bytes_ = 0;

  uint64_t turn_ = 0;
  uint64_t last_ns_ = 0;
  // Of this pass.
  bool is_begin_known_ = false;
  uint64_t begin_ = 0;  // stripe
  uint64_t begin_turn_ = 0;
  uint64_t begin_ns_ = 0;
  uint64_t longest_rest_ns_ = 0;  // but for the last
  uint64_t last_rest_ns_ = 0;
  uint64_t moves_ = 0;
  uint64_t jumps_ = 0;  // of these, further than a pass in order goes
  uint64_t missed_ = 0;
  uint64_t kept_missed_ = 0;
  SharedReadDetector shared_reads_;
};

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_PASSES_READER_H_
