// SPDX-License-Identifier: Apache-2.0
//
// One service on the mount.  It is in one state at a time, and a state owns
// what it needs; here is only which one, and how it comes to the next.
//
//              prepared                       ready, stopped
//   starting ------------> recording   -----------------------> idle
//      ^       `---------> following   -----------------------> idle
//      |                                                          |
//      `------- it begins to read its model again ----------------'
//
// While a start is recorded, a doubtful template or one from headers may be
// followed beside.  A service that is idle may still have pages to be dropped.
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
#include "policies/maio/follow/following.h"
#include "policies/maio/follow/look_ups.h"
#include "policies/maio/record/phase_times.h"
#include "policies/maio/record/recording.h"
#include "policies/maio/synth/prepare.h"
#include "policies/maio/template/shared_store.h"
#include "ppc.hpp"

namespace ppc::maio {

enum class Mode { kRecord, kUse, kIdle, kStarting };
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
  // Another part of the start-up; of each the first time counts.
  nlohmann::json Begins(Phase phase);
  nlohmann::json Stop();
  // Before Stop: its process failed, which says nothing of how well the template fitted.
  void Forgive() { is_forgiven_ = true; }
  nlohmann::json Status() const;

  void Event(const miss_io& event);
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
  // Nothing is to come of it, but for another pass.
  bool IsOver() const {
    const bool is_idle = mode_ == Mode::kIdle && !evict_all_ && !run_.is_awaited;
    return is_idle && (!is_held_back_ || ready_ns_ != 0);
  }
  uint32_t want() const;
  // 0: it does not matter.
  uint64_t beacon_bytes() const;
  // Still needs pages of the range.
  bool Holds(uint64_t file, uint64_t page, uint64_t pages) const;

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
  void FetchNewer();
  void FetchShared(uint64_t known_ns);
  void Fetched();

  void FinishRecording(uint32_t flags);
  void Retire(bool is_ready);
  void GiveBack();
  void SayWhenDone(Feedback work);
  void NotePhase(Phase phase);
  uint64_t OwnBytes() const { return following_ != nullptr ? following_->own_bytes() : 0; }
  // Not what an earlier pass left, while the next is prepared.
  bool follows() const {
    return following_ != nullptr && (mode_ == Mode::kUse || mode_ == Mode::kRecord);
  }
  void Stats() const;

  Run run_;
  SharedStore* const shared_;
  const Background background_;
  bool is_fetched_ = false;              // its template came from the store
  std::optional<uint64_t> fetch_newer_;  // than one of that time, once all is looked up
  LookUps look_ups_;
  Mode mode_ = Mode::kIdle;
  std::string reason_;
  const char* treatment_ = "none";  // of this start: none, record, policy, native
  bool is_held_back_ = false;
  uint64_t generation_ = 0;
  uint32_t stale_files_ = 0;
  uint32_t synthesized_files_ = 0;
  EarlyEvents early_;                     // starting
  std::unique_ptr<Recording> recording_;  // recording
  std::unique_ptr<Following> following_;  // following, or beside recording; idle: what it left
  bool evict_all_ = false;                // idle: all that is left goes
  bool is_stopped_ = false;
  bool is_forgiven_ = false;
  uint32_t ticks_ = 0;
  bool is_again_ = false;  // reads its model another time, without being told of
  uint32_t agains_ = 0;    // so often, each soon after the load before
  uint64_t ready_ns_ = 0;
  PhaseTimes phases_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // expires with this object
};

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_SERVICE_H_
