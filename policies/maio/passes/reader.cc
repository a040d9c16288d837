// SPDX-License-Identifier: Apache-2.0
#include "policies/maio/passes/reader.h"

#include <algorithm>

namespace ppc::maio {

PassReader::PassReader(const Layout& layout) {
  stripe_bytes_ = std::clamp(layout.bytes() / kLeastStripes / kStripeStep * kStripeStep,
                             kLeastStripeBytes, kStripeBytes);
  for (const LayoutFile& file : layout.files()) {
    if (file.number == 0 || file.kind == FileKind::kSmall || file.first_piece == file.last_piece)
      continue;
    Place place{static_cast<uint32_t>(stripes_.size()), 0};
    for (uint64_t at = 0; at < file.bytes; at += stripe_bytes_, ++place.count) {
      const uint64_t bytes = std::min(stripe_bytes_, file.bytes - at);
      stripes_.push_back({.file = file.number, .offset = at, .bytes = bytes});
      bytes_ += bytes;
    }
    files_[file.number] = place;
  }
}

std::optional<uint64_t> PassReader::IndexOf(uint64_t file, uint64_t offset) const {
  const auto found = files_.find(file);
  const uint64_t index = offset / stripe_bytes_;
  if (found == files_.end() || index >= found->second.count) return std::nullopt;
  return found->second.first + index;
}

uint64_t PassReader::Ahead(uint64_t file, uint64_t offset) const {
  const std::optional<uint64_t> at = IndexOf(file, offset);
  return at ? (*at + count() - turn_ % count()) % count() : count();
}

std::optional<Pass> PassReader::Observe(const Access& access) {
  const std::optional<uint64_t> index = IndexOf(access.file, access.offset);
  if (!index) return std::nullopt;
  const uint64_t at = *index;
  if (last_ns_ == 0) {
    turn_ = begin_turn_ = at;
    last_ns_ = begin_ns_ = access.now_ns;
  }
  if (access.now_ns > last_ns_) {
    longest_rest_ns_ = std::max(longest_rest_ns_, last_rest_ns_);
    last_rest_ns_ = access.now_ns - last_ns_;
    last_ns_ = access.now_ns;
  }
  const uint64_t n = count();
  const uint64_t ahead = Ahead(access.file, access.offset);
  const uint64_t behind = ahead == 0 ? 0 : n - ahead;
  std::optional<Pass> ended;
  uint64_t turn = turn_;
  if (behind != 0 && behind <= Stray() && behind <= turn_) {
    turn = turn_ - behind;
  } else if (ahead != 0) {
    ++moves_;
    if (ahead > Stray()) ++jumps_;
    if (turn_ / n != (turn_ + ahead) / n) ended = EndPass(at, last_ns_);
    turn_ += ahead;
    turn = turn_;
    if (ended) begin_turn_ = turn;
  }
  shared_reads_.Note(access.process);
  Stripe& stripe = stripes_[at];
  stripe.seen = turn + 1;
  if (access.is_miss) {
    missed_ += access.bytes;
    if (access.offset - stripe.offset < stripe.kept) kept_missed_ += access.bytes;
  }
  return ended;
}

bool PassReader::IsInOrder() const {
  return moves_ >= kLeastMoves && 4 * jumps_ <= moves_ + 4 && !shared_reads_.IsShared();
}

std::optional<Pass> PassReader::Expected() const {
  const uint64_t passed = turn_ - begin_turn_;
  if (missed_ < bytes_ / kThrashShare || passed == 0 || last_rest_ns_ >= kPassRestNs ||
      HasRested() || !IsInOrder())
    return std::nullopt;  // the first one begins with the first miss that is told
  const double whole = static_cast<double>(count()) / static_cast<double>(passed);
  return Pass{.ns = static_cast<uint64_t>(static_cast<double>(last_ns_ - begin_ns_) * whole),
              .missed = static_cast<uint64_t>(static_cast<double>(missed_) * whole),
              .is_whole = true};
}

// A place that is passed without a word moves the end of the pass: its time is right where the next
// one ends at the same place.
Pass PassReader::EndPass(uint64_t place, uint64_t now_ns) {
  const uint64_t moved = std::max(place, begin_) - std::min(place, begin_);
  const uint64_t rest = last_rest_ns_ < kPassRestNs ? 0 : last_rest_ns_;
  const Pass pass{.ns = now_ns - begin_ns_ - rest,
                  .rest_ns = rest,
                  .missed = missed_,
                  .kept_missed = kept_missed_,
                  .is_shared = shared_reads_.IsShared(),
                  .is_in_order = IsInOrder(),
                  .is_whole = is_begin_known_ && moved <= Stray() && IsInOrder() && !HasRested()};
  is_begin_known_ = true;
  begin_ = place;
  begin_ns_ = now_ns;
  longest_rest_ns_ = last_rest_ns_ = 0;
  shared_reads_.Forget();
  moves_ = jumps_ = missed_ = kept_missed_ = 0;
  return pass;
}

}  // namespace ppc::maio
