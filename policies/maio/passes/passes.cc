// SPDX-License-Identifier: Apache-2.0
#include "policies/maio/passes/passes.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "policies/maio/base/config.h"
#include "policies/maio/base/tuning.h"

namespace ppc::maio {

Passes::Passes(const ServiceRun* run, const Layout& layout)
    : run_(run), cookie_(run->cookie() | kPassesTag), reader_(layout) {}

Passes::~Passes() {
  if (is_on()) End(State::kOff, "");
}

void Passes::Event(const miss_io& event) {
  const bool is_miss = event.kind == PPC_MISS_READ || event.kind == PPC_MISS_FAULT;
  if (!is_miss && event.kind != PPC_PROGRESS) return;
  // While no positions are told, nobody knows whose access a miss was.
  if (reader_.count() == 0 || (!is_miss && (event.flags & PPC_F_NOT_USER) != 0)) return;
  // A miss makes the kernel read its window.
  const uint64_t bytes = is_miss ? std::max(event.size, run_->context->window_bytes) : event.size;
  const std::optional<Pass> pass = reader_.Observe(
      {event.file, event.offset, bytes, is_miss, event.time_ns, {event.pid, event.start_ns}});
  if (pass) return Ended(*pass);
  if (state_ != State::kWatching || needs_whole_) return;
  if (const std::optional<Pass> expected = reader_.Expected()) Watched(*expected, false);
}

// Where the kernel's passes miss less and less, it is left to it.  While misses alone are told,
// what looks like a rest may have been in memory.
void Passes::Watched(const Pass& pass, bool has_ended) {
  const uint64_t before = watched_missed_;
  if (has_ended) watched_missed_ = pass.missed;
  if (!pass.is_whole) return;
  needs_whole_ = false;
  if (pass.rest_ns != 0) return;
  native_ns_ = pass.ns;
  native_missed_ = pass.missed;
  if (pass.missed < reader_.bytes() / kLeastGainShare) return;
  if (!has_ended || pass.missed >= before - before / 4) Begin();
}

void Passes::Ended(const Pass& pass) {
  const ppc_memory memory = run_->Memory();
  const uint64_t change = std::max(memory.limit, limit_) - std::min(memory.limit, limit_);
  if (state_ == State::kOff && change > limit_ / kLimitShare) state_ = State::kWatching;
  if (state_ == State::kWatching) return Watched(pass, true);
  if (state_ == State::kOff) return;
  pass_ns_ = pass.ns;
  pass_asked_ = std::exchange(asked_, 0);
  if (least_kept_ != ~0ull) kept_ = std::max(kept_, least_kept_);
  least_kept_ = ~0ull;
  if (pass.is_shared) return Distrust("several processes read the model");
  if (++passes_ < 2) return;  // in the first what is to stay is loaded
  // Reclaim took what was to stay: there is less room than it looked.
  if (pass.kept_missed > reader_.bytes() / kKeptMissedShare)
    spare_ =
        std::min(spare_ + std::max(pass.kept_missed, reader_.stripe_bytes()), memory.limit / 4);
  else
    spare_ -= spare_ / kSpareShare;
  irregular_ = pass.is_in_order ? 0 : irregular_ + 1;
  if (irregular_ >= kMostIrregular) return Distrust("it does not pass over the model in order");
  if (!pass.is_whole) return;
  if (passes_ >= trial_ && pass_asked_ <= reader_.bytes() / kNearlyShare) {
    trial_ *= kTrialGrowth;
    watched_missed_ = ~0ull;
    return End(State::kWatching, "nearly all fits: a pass is measured again");
  }
  const bool is_slow = pass.ns > native_ns_ - native_ns_ / kLeastGainShare;
  slow_ = is_slow ? slow_ + 1 : 0;
  has_gained_ |= !is_slow;
  if (slow_ < 2) return;
  // With less room than it was measured with it is slower without us, too.
  if (std::exchange(has_gained_, false) &&
      Room(memory) + spare_ + begun_room_ / kRoomShare < begun_room_) {
    End(State::kWatching, "there is less room than when a pass was measured");
  } else {
    End(State::kOff, "passes were no faster than without");
  }
}

void Passes::Begin() {
  ppc_memory memory = run_->Memory();
  // Without a limit of the service's own, others' memory would have to make room.  Its own may bind
  // once all of the machine's is used.
  const bool is_full = memory.is_cgroup == 0 && memory.used > memory.threshold;
  if (memory.limit == 0 || (memory.is_cgroup == 0 && !is_full)) return;
  if (is_full) {
    if (!run_->UseLimit(true)) return;
    memory = run_->Memory();
  }
  memory.threshold = std::max(memory.threshold, memory.limit - memory.limit / 16);
  if (memory.is_cgroup == 0 || reader_.bytes() <= Room(memory)) {
    if (is_full) (void)run_->UseLimit(false);
    return;
  }
  if (!run_->UseLimit(true)) return;
  state_ = State::kOn;
  why_ = "";
  limit_ = memory.limit;
  passes_ = 0;
  slow_ = irregular_ = 0;
  spare_ = asked_ = begin_ = 0;
  begun_room_ = Room(memory);
  next_ = tail_ = reader_.turn();
  back_ = reader_.turn() - std::min(reader_.turn(), kBehindStripes);
  for (Stripe& stripe : reader_.stripes()) {
    stripe.kept = 0;
    stripe.unseen = 0;
  }
  ahead_ = std::clamp(Room(memory) / kAheadShare, kLeastAheadBytes, kAheadBytes);
  kept_ = KeptBy(memory);
  least_kept_ = kept_;
  run_->Log(PPC_LOG_INFO, "maio: service " + run_->spec.service_id + ": passes over " +
                              std::to_string(reader_.bytes() >> 20) + " MiB, " +
                              std::to_string(kept_ >> 20) + " of each " +
                              std::to_string(reader_.stripe_bytes() >> 20) + " stay");
}

void Passes::End(State state, const char* why) {
  if (is_on()) {
    (void)run_->UseLimit(false);
    run_->context->interrupt_of(run_->context, run_->spec.number, 0);
  }
  state_ = state;
  why_ = why;
  limit_ = run_->Memory().limit;
  retries_.clear();
}

// Turns are wrong, and drop what is read next.
void Passes::Distrust(const char* why) {
  needs_whole_ = true;
  End(State::kWatching, why);
}

// What the service does not take for itself.
uint64_t Passes::Room(const ppc_memory& memory) const {
  const uint64_t other = memory.used - std::min(memory.used, memory.cache);
  const uint64_t taken = other + spare_;
  return memory.threshold > taken ? memory.threshold - taken : 0;
}

// Stripes ahead of the reader of which the rest is loaded.
uint64_t Passes::Ahead() const {
  const uint64_t rest = std::max(reader_.stripe_bytes() - kept_, kKeptStep);
  return std::max(kLeastAhead, std::min(ahead_ / rest, reader_.count() / 4));
}

// All stripes but those around the reader hold what is kept alone.
uint64_t Passes::KeptBy(const ppc_memory& memory) const {
  uint64_t used = 0;
  for (const Stripe& stripe : reader_.stripes()) used += IsUsed(stripe) ? 1 : 0;
  const uint64_t stripe = reader_.stripe_bytes();
  const uint64_t behind = kBehindStripes + 1;
  const uint64_t room = Room(memory);
  // So many stripes and bytes lie there whole.
  const auto kept_beside = [&](uint64_t whole, uint64_t bytes) {
    const uint64_t taken = whole * stripe + bytes;
    return used > whole && room > taken ? (room - taken) / (used - whole) : 0;
  };
  const uint64_t kept =
      std::min(kept_beside(behind + kLeastAhead, 0),
               std::max(kept_beside(behind, ahead_), kept_beside(behind + reader_.count() / 4, 0)));
  return std::min(kept / kKeptStep * kKeptStep, stripe - kKeptStep);
}

// The kernel's counts of the cache lag: less is kept once three looks say so, more once all looks
// of a pass have.
void Passes::Look(const ppc_memory& memory) {
  const uint64_t now = run_->Now();
  if (now < looked_ns_ + kTraceNs) return;
  looked_ns_ = now;
  const uint64_t kept = KeptBy(memory);
  least_kept_ = std::min(least_kept_, kept);
  less_ = kept < kept_ ? less_ + 1 : 0;
  if (less_ < 3) return;
  kept_ = kept;
  less_ = 0;
}

uint64_t Passes::AddLoad(const Stripe& stripe, uint64_t from, uint64_t to, uint32_t flags,
                         IoList* out) {
  if (from >= to) return 0;
  ppc_io& io = out->Add(stripe.file, stripe.offset + from, to - from);
  io.flags = flags;
  io.service = run_->spec.number;
  io.cookie = cookie_;
  return to - from;
}

void Passes::AddDrop(const Stripe& stripe, uint64_t from, uint64_t to, const Evictor::Held& held,
                     IoList* out) {
  const uint64_t first = (stripe.offset + from) / kPage;
  const uint64_t end = (stripe.offset + to + kPage - 1) / kPage;
  if (from >= to || held(stripe.file, first, end - first)) return;
  ppc_io& io = out->Add(stripe.file, stripe.offset + from, to - from);
  io.flags = PPC_IO_UNMAP;
  io.service = run_->spec.number;
  io.cookie = cookie_;
}

void Passes::Plan(const ppc_plan_request& request, IoList* out) {
  if (!is_on()) return;
  if (next_ < reader_.turn()) {
    next_ = reader_.turn();
    begin_ = 0;
  }
  uint64_t left = std::min(request.max_bytes,
                           request.memory == nullptr ? request.max_bytes : request.memory->room);
  const uint64_t end = reader_.turn() + Ahead();
  while (next_ <= end && left > 0) {
    Stripe& stripe = reader_.At(next_);
    const bool is_used = IsUsed(stripe);
    while (is_used && begin_ < stripe.bytes && left > 0) {
      const uint64_t kept = std::min(kept_, stripe.bytes);
      if (begin_ == 0) begin_ = stripe.kept = std::min(stripe.kept, kept);
      if (begin_ >= stripe.bytes) break;
      // What is to stay is charged to the service itself, beside what goes with its group.
      const bool stays = begin_ < kept;
      const uint64_t to = std::min(
          {(begin_ / kChunkBytes + 1) * kChunkBytes, stripe.bytes, stays ? kept : stripe.bytes});
      if (to - begin_ > left && to - begin_ > kStripeStep) return;
      const uint64_t bytes = AddLoad(stripe, begin_, to, stays ? 0 : PPC_IO_BURN, out);
      asked_ += bytes;
      left -= std::min(left, bytes);
      begin_ = to;
      if (stays) stripe.kept = std::max(stripe.kept, to);
    }
    if (is_used && begin_ < stripe.bytes) return;
    ++next_;
    begin_ = 0;
  }
}

void Passes::Evict(const Evictor::Held& held, IoList* out) {
  if (!is_on()) return;
  const ppc_memory memory = run_->Memory();
  Look(memory);
  const uint64_t turn = reader_.turn();
  const uint64_t n = reader_.count();
  // The kernel has filled the memory: what was passed last goes first.
  uint64_t wanted = memory.room < kChunkBytes && next_ <= turn + Ahead() ? 2 * kChunkBytes : 0;
  while (wanted > 0 && back_ > 0 && back_ + n > turn + Ahead() + 1) {
    const Stripe& stripe = reader_.At(--back_);
    const uint64_t kept = std::min(kept_, stripe.bytes);
    AddDrop(stripe, kept, stripe.bytes, held, out);
    wanted -= std::min(wanted, stripe.bytes - kept);
  }
  if (tail_ + n < turn) tail_ = turn - n;
  for (; tail_ + kBehindStripes <= turn; ++tail_) {
    Stripe& stripe = reader_.At(tail_);
    stripe.unseen = stripe.seen > tail_ ? 0 : stripe.unseen + 1;
    const uint64_t kept = IsUsed(stripe) ? std::min(kept_, stripe.bytes) : 0;
    stripe.kept = std::min(stripe.kept, kept);
    AddDrop(stripe, kept, stripe.bytes, held, out);
  }
  const uint64_t now = run_->Now();
  for (; !retries_.empty() && retries_.front().due_ns <= now; retries_.pop_front()) {
    const Retry& retry = retries_.front();
    // The reader may come to it again soon.
    const uint64_t ahead = reader_.Ahead(retry.file, retry.offset);
    if (ahead <= Ahead() || ahead + kBehindStripes > n) continue;
    if (held(retry.file, retry.offset / kPage, (retry.bytes + kPage - 1) / kPage)) continue;
    ppc_io& io = out->Add(retry.file, retry.offset, retry.bytes);
    io.flags = PPC_IO_UNMAP;
    io.service = run_->spec.number;
    io.cookie = cookie_ + retry.tries;
  }
}

void Passes::Done(const ppc_result& result) {
  if (!is_on() || result.kind != PPC_EVICTED) return;
  const uint64_t tries = result.cookie & kTagMask;
  // A stripe shares its group with the next one's, and goes with it.
  if (result.mapped < result.size / 50 || tries >= kMaxTries) return;
  retries_.push_back(
      {result.file, result.offset, result.size, run_->Now() + kFirstRetryNs, tries + 1});
}

void Passes::Describe(nlohmann::json* out) const {
  const char* const state = state_ == State::kOn    ? "on"
                            : state_ == State::kOff ? "off"
                                                    : "watching";
  nlohmann::json json = {{"state", state},
                         {"native_ms", native_ns_ / 1'000'000},
                         {"native_missed", native_missed_},
                         {"pass_ms", pass_ns_ / 1'000'000},
                         {"asked", pass_asked_},
                         {"kept", kept_},
                         {"stripe", reader_.stripe_bytes()}};
  if (*why_ != 0) json["why"] = why_;
  (*out)["passes"] = std::move(json);
}

}  // namespace ppc::maio
