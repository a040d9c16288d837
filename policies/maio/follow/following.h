// SPDX-License-Identifier: Apache-2.0
//
// The state of a service that follows a template: whose events become
// positions, plans and evictions.  Owns all that belongs to this one pass of
// the load, and notes it for whoever takes over after a crash.
#ifndef POLICIES_MAIO_FOLLOW_FOLLOWING_H_
#define POLICIES_MAIO_FOLLOW_FOLLOWING_H_

#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "policies/maio/base/run.h"
#include "policies/maio/follow/affinity.h"
#include "policies/maio/follow/cache_use.h"
#include "policies/maio/follow/evictor.h"
#include "policies/maio/follow/layout.h"
#include "policies/maio/follow/matcher.h"
#include "policies/maio/follow/native_files.h"
#include "policies/maio/follow/own_memory.h"
#include "policies/maio/follow/piece_table.h"
#include "policies/maio/follow/planner.h"
#include "policies/maio/follow/reload_detector.h"
#include "policies/maio/follow/small_files.h"
#include "policies/maio/follow/status.h"
#include "policies/maio/follow/tables.h"
#include "policies/maio/follow/worker_votes.h"
#include "policies/maio/template/template_feedback.h"
#include "ppc.hpp"

namespace ppc::maio {

class Following {
 public:
  // run outlives this.
  Following(ServiceRun* run, Tables tables);

  void Event(const miss_io& event);
  void Plan(const ppc_plan_request& request, IoList* out);
  void Evict(const Evictor::Held& held, IoList* out);
  // Other services wait for room.
  void SetContended(bool is_contended) {
    is_contended_ = is_contended;
    evictor_->SetContended(is_contended);
  }
  // There is something that it has not loaded.
  bool IsLoading() const { return !planner_->finished() || !small_->finished(); }
  // The number of the file that is loaded next; 0: nothing is.
  uint64_t NextLoad() { return run_->config.prefetch ? planner_->NextFile() : 0; }
  // Drops whatever is left; false once there is nothing to do any more.
  bool EvictAll(const Evictor::Held& held, bool may_unmap, IoList* out);
  void Done(const ppc_result& result);
  void Tick(uint64_t now_ns);
  // All that is to be read has been.
  void Rest();
  // The model has been read: what readers were thought to be still in may go.
  void EndWeights();
  // EvictAll leaves what was in the page cache already.
  void KeepPreexisting() {
    table_->KeepPreexisting();
    small_->KeepPreexisting();
  }
  // The load has ended, the service may go on, or has ended too: nothing is loaded any more, and no
  // file is treated in a way of its own.
  void Pause();
  // A reader that had paused goes on where it was.
  void GoOn();

  // As SmallFiles::Learn.
  uint32_t Learn(std::span<const FileLookup> found) {
    learnt_ns_ = run_->Now();
    return small_->Learn(found);
  }
  const Layout& layout() const { return *layout_; }
  bool Knows(uint64_t file) const { return layout_->FileOf(file) >= 0 || small_->Knows(file); }
  // Still needs pages of the range.
  bool Holds(uint64_t file, uint64_t page, uint64_t pages) const;
  // What shows that a template does not fit.  Events on pages that only other workers list; listed
  // bytes that no reader has read or missed so far; bytes missed after they had been dropped.
  uint64_t matched_events() const { return matcher_->matched(); }
  uint64_t foreign_events() const { return matcher_->foreign(); }
  uint64_t unread_bytes() const { return UnreadBytes(*layout_); }
  uint64_t refault_bytes() const { return evictor_->stats().refaults; }
  // The same for template feedback.  is_whole: the load came to its end, so what was not read by
  // now is not needed; found: sets what is to be changed.
  TemplateUse UseOfTemplate(bool is_whole, Repair* found) const;
  // Model files were read that are not in the template.
  bool has_new_model_files() const { return native_.has_new_model_files(); }
  // Of a service whose load has ended: true once its misses say that it reads its model (again).
  // may_be_replaced: the first miss of a process that replaces another is enough.
  bool IsReload(const miss_io& event, bool may_be_replaced);
  // Every reader is at the end of what it reads.
  bool IsAtEnd() const;
  // Bytes of the model that were read or missed, and a number that changes with each and with each
  // load.  What readers pass another time says nothing: they may compute from it for months.
  uint64_t read_bytes() const { return table_->seen_bytes(); }
  // Nearly all that is listed of the model has been read once.
  bool HasReadAll() const { return read_bytes() >= layout_->bytes() / 100 * 95; }
  uint64_t Activity() const { return read_bytes() + loaded_bytes(); }
  uint64_t loaded_bytes() const { return planner_->stats().loaded + small_->stats().loaded; }
  bool has_model() const { return layout_->bytes() != 0; }
  bool constrained() const { return constrained_; }
  // The kernel could keep all of it beside what the service takes for itself.
  bool Fits(const ppc_memory& memory) const;
  uint64_t beacon_bytes() const { return beacon_bytes_; }
  // What the service had taken for itself when it began to read the model; 0: not known.
  uint64_t own_bytes() const { return own_memory_.taken(); }
  // Called when two workers turn out to be each other.
  void OnSwap(std::function<void(uint32_t, uint32_t)> swap) { on_swap_ = std::move(swap); }

  void Describe(nlohmann::json* out) const { maio::Describe(Parts(), out); }
  void Stats() const { maio::Stats(Parts()); }

 private:
  void See(const Observation& o);
  bool SmallFile(const miss_io& event);
  uint64_t template_bytes() const { return layout_->bytes() + small_->stats().bytes; }
  uint64_t OwnToCome(const ppc_memory& memory, ReadingWorkers reads) {
    if (own_memory_.has_ended()) return 0;
    return own_memory_.RoomToLeave(memory, run_->GroupUsed(), table_->resident_bytes(), reads,
                                   run_->Now());
  }
  void Jumped(uint32_t g);
  void ReadThrough(int32_t slot, uint64_t bytes);
  void ReadPast(const miss_io& event, int32_t file);
  void BindGroups();
  void NoteMiss(const miss_io& event, uint32_t file);
  bool IsReadAhead(const miss_io& event, uint32_t file) const;
  void UnlistedFile(const miss_io& event);
  void FollowSync(const miss_io& event, uint32_t slot);
  std::vector<UnreadRange> Unread() const;
  bool IsOwn(const Observation& o) const;
  void Vote(const miss_io& event, uint32_t from, uint32_t file);
  void DropSilent(uint64_t now_ns);
  void Trace(uint64_t now_ns);
  StatusSources Parts() const;

  ServiceRun* const run_;
  std::unique_ptr<Layout> layout_;
  std::unique_ptr<SmallFiles> small_;
  uint64_t learnt_ns_;  // when some of them were looked up last
  std::unique_ptr<PieceTable> table_;
  std::unique_ptr<Affinity> affinity_;
  std::unique_ptr<Matcher> matcher_;
  std::unique_ptr<Planner> planner_;
  std::unique_ptr<Evictor> evictor_;
  std::unique_ptr<WorkerVotes> votes_;
  std::function<void(uint32_t, uint32_t)> on_swap_;

  CacheUse cache_use_;
  OwnMemory own_memory_;
  NativeFiles native_;
  ReloadDetector reload_detector_;
  std::map<int32_t, uint64_t> node_bytes_;
  uint64_t first_event_ns_ = 0;
  uint64_t traced_ns_ = 0;
  uint64_t looked_ns_ = 0;  // for what vanished
  uint64_t beacon_bytes_ = 0;
  Device device_;
  bool constrained_ = false;
  bool is_contended_ = false;
  const uint64_t recorded_own_;   // bytes that the service took for itself when it was recorded
  std::vector<bool> seen_files_;  // some event, an open too
  bool has_opens_ = false;        // opens are told
  bool has_holes_ = false;        // events were lost
};

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_FOLLOW_FOLLOWING_H_
