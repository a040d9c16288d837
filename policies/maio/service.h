// SPDX-License-Identifier: Apache-2.0
//
// One service on the mount.  It is in one state at a time, and a state owns
// what it needs; here is only which one, and how it comes to the next.
//
//              prepared                  the load ends, or ready
//   starting ------------> recording   -----------------------> serving
//      ^       `---------> following   -----------------------> serving
//      |                       ^                                  |  |
//      |                       `---- a reader that paused --------'  |
//      `-------------------- a new pass over the model --------------'
//
// While a start is recorded, a doubtful template or one from headers may be
// followed beside.  A serving service plans nothing, asks for no positions and
// drops nothing, but for what `ready` or a stop told it to drop, and while it
// makes passes over a model larger than its memory (passes/).  With the misses of
// a mixture of experts it loads whole experts (experts.h).
#ifndef POLICIES_MAIO_SERVICE_H_
#define POLICIES_MAIO_SERVICE_H_

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "policies/maio/base/background.h"
#include "policies/maio/base/config.h"
#include "policies/maio/base/early_events.h"
#include "policies/maio/base/run.h"
#include "policies/maio/base/shared_read_detector.h"
#include "policies/maio/experts.h"
#include "policies/maio/follow/following.h"
#include "policies/maio/follow/load_end.h"
#include "policies/maio/follow/lookup_queue.h"
#include "policies/maio/idle_models.h"
#include "policies/maio/passes/passes.h"
#include "policies/maio/record/phase_times.h"
#include "policies/maio/record/recording.h"
#include "policies/maio/synth/prepare.h"
#include "policies/maio/template/shared_store.h"
#include "ppc.hpp"

namespace ppc::maio {

// Numbers are those of the statistics.
enum class Mode { kRecord, kUse, kServing, kStarting, kNative, kStopped };
const char* ModeName(Mode mode);

class Service {
 public:
  // slot: small number, unique among the services of the mount.  shared: of the policy, which
  // outlives it.
  Service(const ppc_context* context, const Config& config, ServiceSpec spec, uint32_t slot,
          SharedStore* shared, Background background);

  nlohmann::json Start();
  // In place of Start, of one whose process failed: what the next start needs is loaded before it
  // is told of.  A stop gives back what that took.
  nlohmann::json Await();
  // That start has come; false: it is another one, or there is nothing to join.
  bool Join(const ServiceSpec& spec);
  nlohmann::json Ready();
  // In place of Start, of one that was ready before this runner was started.
  nlohmann::json Serve();
  // Another part of the start-up; of each the first time counts.
  nlohmann::json BeginPhase(Phase phase);
  nlohmann::json Stop();
  // Before Stop: its process failed, which says nothing of how well the template fitted.
  void SuppressFeedback() { is_feedback_suppressed_ = true; }
  nlohmann::json Status() const;

  void Event(const miss_io& event);
  // Its misses are answered by loads of whole experts.
  bool has_experts() const { return experts_ != nullptr && !is_stopped_ && !evict_all_; }
  void Prefetch(const miss_io& miss, IoList* out) { experts_->Prefetch(miss, out); }
  void Plan(const ppc_plan_request& request, IoList* out);
  // is_contended: other services wait for room.
  void Evict(const Evictor::Held& held, bool is_contended, IoList* out);
  bool IsLoading() const { return follows() && following_->IsLoading(); }
  bool Done(const ppc_result& result);
  void Tick(uint64_t now_ns);

  const ServiceSpec& spec() const { return run_.spec; }
  bool is_awaited() const { return run_.is_awaited; }
  const std::string& id() const { return run_.spec.service_id; }
  uint32_t number() const { return run_.spec.number; }
  uint32_t slot() const { return run_.slot; }
  Mode mode() const { return mode_; }
  bool loads() const {
    return mode_ == Mode::kRecord || mode_ == Mode::kUse || mode_ == Mode::kStarting;
  }
  uint64_t start_ns() const { return run_.start_ns; }
  // Nothing is to come of it, but for another pass.
  bool IsOver() const {
    if (loads() || evict_all_ || run_.is_awaited) return false;
    if (IsSeenToCompute()) return false;
    if (mode_ == Mode::kNative) return !is_held_back_ || ready_ns_ != 0;
    return mode_ == Mode::kStopped || ready_ns_ != 0;
  }
  void Stats() const;
  uint32_t want() const;
  // What it wanted when the runtime was told last.
  uint32_t told_want() const { return told_want_; }
  uint32_t TellWant() { return told_want_ = want(); }
  // 0: it does not matter.
  uint64_t beacon_bytes() const;
  // Still needs pages of the range.
  bool Holds(uint64_t file, uint64_t page, uint64_t pages) const;
  // Loads from the file, or records what is read of it.
  bool LoadsFrom(uint64_t file) const {
    return (follows() && following_->Knows(file)) ||
           (mode_ == Mode::kRecord && recording_->Knows(file));
  }

 private:
  using Feedback = std::function<std::string(const ppc_context* context, const ServiceSpec& spec)>;

  void Joined();
  std::shared_ptr<Preparer> MakePreparer() const {
    return std::make_shared<Preparer>(run_.context, run_.config, run_.spec, run_.Memory(),
                                      run_.is_awaited || run_.spec.is_resumed);
  }
  void Prepare();
  void Begin(Preparation preparation);
  void Follow(Preparation* preparation);  // takes its template
  // Where the readers are is not known after a runner ended during a load.
  bool MayGoOn() { return !run_.spec.is_resumed || MayStartOver(); }
  bool MayStartOver();
  void FetchNewer();
  void FetchShared(uint64_t known_ns);
  void Fetched();

  void FinishRecording(uint32_t flags);
  // Serving from here on.  is_over: all that is listed has been read, or is not needed any more.
  void EndLoad(bool is_over);
  bool IsAtEnd() const;
  bool EvictIdle(const Evictor::Held& held, IoList* out);
  void EndFollowing(uint64_t now_ns);
  void StopFollowing();
  bool HasLoadEnded(uint64_t now_ns);
  void Reload(const miss_io& event);
  // Its misses showed passes or experts: none of them is a load.
  bool IsSeenToCompute() const {
    return experts_ != nullptr || (passes_ != nullptr && passes_->has_passes());
  }
  void WatchPasses();
  void NoteMissedAgain(const miss_io& event);
  void FindExperts();
  void ForgetMisses() {
    missed_again_ = 0;
    missing_.Forget();
  }
  void Judge(bool is_ready);
  void GiveBack();
  void SayWhenDone(Feedback work);
  void NotePhase(Phase phase);
  uint64_t OwnBytes() const { return following_ != nullptr ? following_->own_bytes() : 0; }
  // Not what an earlier pass left, while the next is prepared.
  bool follows() const {
    return following_ != nullptr && (mode_ == Mode::kUse || mode_ == Mode::kRecord) &&
           !has_followed_;
  }

  ServiceRun run_;
  SharedStore* const shared_;
  const Background background_;
  bool is_fetched_ = false;              // its template came from the store
  std::optional<uint64_t> fetch_newer_;  // than one of that time, once all is looked up
  LookupQueue lookup_queue_;
  Mode mode_ = Mode::kNative;
  std::string reason_;
  const char* treatment_ = "none";  // of this start: none, record, policy, native
  bool is_held_back_ = false;
  bool is_judged_ = false;  // the template, by this load
  uint64_t generation_ = 0;
  uint32_t stale_files_ = 0;
  uint32_t synthesized_files_ = 0;
  EarlyEvents early_;                     // starting
  std::unique_ptr<Recording> recording_;  // recording
  std::unique_ptr<Following> following_;  // following, or beside recording; serving: what it left
  std::unique_ptr<Passes> passes_;        // serving, where it may compute from its mappings
  std::unique_ptr<Experts> experts_;      // the same, of a mixture of experts
  IdleModels idle_models_;
  LoadEnd load_end_;           // of the load that is going on
  LoadEnd follow_end_;         // of what is followed beside a recording
  bool has_followed_ = false;  // which has ended: the recording goes on alone
  bool evict_all_ = false;     // serving: all that is left goes
  bool has_looked_for_experts_ = false;
  uint64_t missed_again_ = 0;   // bytes, since all had been read
  SharedReadDetector missing_;  // them
  bool is_stopped_ = false;
  bool is_feedback_suppressed_ = false;
  bool is_reload_ = false;  // reads its model another time, without being told of
  uint32_t told_want_ = 0;
  uint32_t resumes_ = 0;  // so often its recording went on after it had ended by itself
  uint64_t ready_ns_ = 0;
  uint64_t served_miss_ns_ = 0;   // the last while serving, or the end of the load
  uint64_t reload_until_ns_ = 0;  // misses are taken for a load again: they followed a rest
  PhaseTimes phases_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // expires with this object
};

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_SERVICE_H_
