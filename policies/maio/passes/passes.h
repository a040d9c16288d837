// SPDX-License-Identifier: Apache-2.0
//
// A service that computes from a mapped model larger than its memory reads the same pieces again
// and again.  LRU evicts each just before it is used.  Here the beginning of each stripe stays, as
// much as there is memory for; the rest is loaded a fixed distance ahead of the reader, across the
// end of a pass, and dropped behind it.  Each stripe has both, so that positions show all along and
// the disk is busy all along.
//
// A pass is measured without us first, as far as it takes to see that it misses much.  Passes that
// gain nothing end it, until the memory changes; where there is less room than when the pass was
// measured, one is measured again.  So it is where nearly all fits, after some passes: what is
// never read takes room in our count, and the kernel alone may come to miss nothing.
//
//   watching ------- a pass that misses much -------> on --- two passes no faster ---> off
//       ^                                             |                                 |
//       `----- less room than then, or a trial -------+-------- the limit changes ------'
//
// Owns what is kept, and what it has asked for; called from the policy's one thread.
#ifndef POLICIES_MAIO_PASSES_PASSES_H_
#define POLICIES_MAIO_PASSES_PASSES_H_

#include <cstdint>
#include <deque>
#include <nlohmann/json.hpp>

#include "policies/maio/base/run.h"
#include "policies/maio/follow/evictor.h"
#include "policies/maio/passes/reader.h"
#include "ppc.hpp"

namespace ppc::maio {

class Passes {
 public:
  // run outlives this; layout: not needed after that.
  Passes(const ServiceRun* run, const Layout& layout);
  ~Passes();
  Passes(const Passes&) = delete;
  Passes& operator=(const Passes&) = delete;

  void Event(const miss_io& event);
  void Plan(const ppc_plan_request& request, IoList* out);
  // held: as Evictor's; what another service needs stays.
  void Evict(const Evictor::Held& held, IoList* out);
  bool Owns(uint64_t cookie) const { return (cookie & ~kTagMask) == cookie_; }
  void Done(const ppc_result& result);

  // Positions are to be told, loads are planned.
  bool is_on() const { return state_ == State::kOn; }
  // The service computes from its files: what it misses is no load.
  bool has_passes() const { return native_ns_ != 0; }
  void Describe(nlohmann::json* out) const;

 private:
  enum class State { kWatching, kOn, kOff };
  static constexpr uint64_t kTagMask = 0xffff;
  static constexpr uint64_t kMaxTries = 3;

  // What stayed though it was to go.
  struct Retry {
    uint64_t file = 0;
    uint64_t offset = 0;
    uint64_t bytes = 0;
    uint64_t due_ns = 0;
    uint64_t tries = 0;
  };

  void Watched(const Pass& pass, bool has_ended);
  void Ended(const Pass& pass);
  void Begin();
  void End(State state, const char* why);
  void Distrust(const char* why);
  uint64_t Room(const ppc_memory& memory) const;
  uint64_t KeptBy(const ppc_memory& memory) const;
  void Look(const ppc_memory& memory);
  static bool IsUsed(const Stripe& stripe) { return stripe.unseen < kUnseenTurns; }
  uint64_t Ahead() const;
  uint64_t AddLoad(const Stripe& stripe, uint64_t from, uint64_t to, uint32_t flags, IoList* out);
  void AddDrop(const Stripe& stripe, uint64_t from, uint64_t to, const Evictor::Held& held,
               IoList* out);

  const ServiceRun* const run_;
  const uint64_t cookie_;
  PassReader reader_;
  State state_ = State::kWatching;
  const char* why_ = "no pass has been seen";
  uint64_t native_ns_ = 0;         // a pass without us
  uint64_t native_missed_ = 0;     // bytes
  uint64_t watched_missed_ = 0;    // in the pass before, without us; of a trial all
  uint64_t trial_ = kTrialPasses;  // passes until the next
  uint64_t limit_ = 0;             // when it was begun or ended
  uint64_t begun_room_ = 0;        // when it was begun
  bool has_gained_ = false;        // a pass was faster since a pass was measured last
  uint64_t pass_ns_ = 0;           // the last
  uint64_t passes_ = 0;            // since it is on
  int slow_ = 0;                   // in a row
  int irregular_ = 0;              // in a row that were not whole
  bool needs_whole_ = false;       // too many: a whole pass comes before the next begin
  uint64_t kept_ = 0;              // of each stripe
  uint64_t least_kept_ = 0;        // that memory has allowed in this pass
  int less_ = 0;                   // looks in a row that allowed less
  uint64_t looked_ns_ = 0;
  uint64_t ahead_ = 0;  // bytes
  uint64_t back_ = 0;   // what lay behind the reader at the beginning: dropped down to this turn
  uint64_t spare_ = 0;  // left free: what was to stay went
  uint64_t next_ = 0;   // turn to be loaded next
  uint64_t tail_ = 0;   // turn to be dropped next
  uint64_t begin_ = 0;  // bytes of the stripe of next_ that were asked for
  uint64_t asked_ = 0;  // bytes, in this pass
  uint64_t pass_asked_ = 0;  // in the last
  std::deque<Retry> retries_;
};

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_PASSES_PASSES_H_
