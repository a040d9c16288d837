// SPDX-License-Identifier: Apache-2.0
//
// One running service on the mount: records its template, or uses it.  Owns
// everything that belongs to this run; several services are several objects.
#ifndef POLICIES_MAIO_SERVICE_H_
#define POLICIES_MAIO_SERVICE_H_

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "policies/maio/config.h"
#include "policies/maio/follow/affinity.h"
#include "policies/maio/follow/checkpoint.h"
#include "policies/maio/follow/evictor.h"
#include "policies/maio/follow/layout.h"
#include "policies/maio/follow/leftovers.h"
#include "policies/maio/follow/matcher.h"
#include "policies/maio/follow/planner.h"
#include "policies/maio/follow/stand_down.h"
#include "policies/maio/follow/worker_map.h"
#include "policies/maio/record/recorder.h"
#include "policies/maio/synth/synth.h"
#include "ppc.hpp"

namespace ppc::maio {

enum class Mode { kRecord, kUse, kIdle };
const char* ModeName(Mode mode);

class Service {
 public:
  // slot: small number, unique among the services of the mount.
  Service(const ppc_context* context, const Config& config, ServiceSpec spec, uint32_t slot);

  nlohmann::json Start();
  nlohmann::json Ready();
  nlohmann::json Stop();
  nlohmann::json Status() const;

  // Any event; returns true when loads in flight for the service are out of date (then they
  // have been interrupted already).
  void Event(const miss_io& event);
  void Plan(const ppc_plan_request& request, IoList* out);
  void Evict(const Evictor::Held& held, IoList* out);
  bool Done(const ppc_result& result);
  void Tick(uint64_t now_ns);

  const std::string& id() const { return spec_.service_id; }
  uint32_t number() const { return spec_.number; }
  uint32_t slot() const { return slot_; }
  Mode mode() const { return mode_; }
  uint32_t want() const;
  uint64_t beacon_bytes() const { return beacon_bytes_; }
  // Knows the file: recorded it, or its template lists it.
  bool Knows(uint64_t file) const;
  // Still needs pages of the range.
  bool Holds(uint64_t file, uint64_t page, uint64_t pages) const;

 private:
  struct Votes {
    uint32_t total = 0;
    std::map<uint32_t, uint32_t> per_group;
  };

  // What lay in the store when the service started.
  struct Found {
    uint32_t flags = 0;
    uint64_t bytes = 0;  // 0: nothing
  };

  void FollowProvisionally(Template* known);
  void CompleteFromHeaders(Template* t);
  void StartRecording();
  void NoteCached(const miss_io& event, uint64_t size);
  bool Supersedes(uint32_t flags) const;
  bool StartUsing(Template* t);
  void Follow(const Template& t, const std::vector<uint64_t>& numbers);
  void FindCached();
  // See service_checkpoint.cc.
  void OpenCheckpoint();
  bool TakeOver();
  void SaveProgress();
  std::vector<uint64_t> CheckFiles(const Template& t);
  // See service_synth.cc.
  Fingerprint FingerprintOf(const std::string& path, uint64_t size, FileKind* kind) const;
  uint32_t TensorParallel() const;  // 0: not told
  SynthOptions SynthOptionsFor(uint32_t workers) const;
  std::optional<Template> SynthesizeModel();
  bool RepairFile(Template* t, uint32_t file);
  // Has a template to follow, recorded or not; while recording it may follow a synthetic one.
  bool follows() const { return layout_ != nullptr && mode_ != Mode::kIdle; }
  void RecordEvent(const miss_io& event);
  int32_t LearnFile(const miss_io& event);
  void FillFingerprints(uint64_t budget_ns);
  void FinishRecording(uint32_t flags);
  void UseEvent(const miss_io& event);
  void UnlistedFile(const miss_io& event);
  void FollowSync(const miss_io& event, uint32_t slot);
  uint64_t OverPrefetched() const;
  void NoteMiss(const miss_io& event, uint32_t file, int32_t slot);
  bool IsOwn(const Observation& o) const;
  void Vote(const miss_io& event, uint32_t from, uint32_t slot);
  void BindGroups();
  void DropSilent(uint64_t now_ns);
  void Retire();
  void Trace(uint64_t now_ns);
  void Stats() const;
  uint64_t Now() const { return context_->now_ns(context_); }
  ppc_memory Memory() const;
  int32_t SlotOf(uint32_t group) const;
  void Log(int level, const std::string& message) const;

  const ppc_context* context_;
  const Config config_;
  const ServiceSpec spec_;
  const uint32_t slot_;
  Mode mode_ = Mode::kIdle;
  uint64_t start_ns_ = 0;
  uint64_t last_event_ns_ = 0;
  uint64_t traced_ns_ = 0;
  uint32_t ticks_ = 0;
  uint64_t beacon_bytes_ = 0;
  std::string reason_;
  WorkerMap workers_;
  uint32_t copies_ = 0;  // of each worker's list, of a template for fewer workers
  uint32_t turn_ = 0;
  uint32_t swaps_ = 0;  // times a process turned out to be another worker

  std::unique_ptr<Recorder> recorder_;
  Found found_;
  uint64_t stored_bytes_ = 0;
  uint64_t tried_bytes_ = 0;   // when storing it was tried while the service was idle
  uint64_t cached_bytes_ = 0;  // of the recorded files, cached before they were read
  size_t fingerprinted_ = 0;
  uint64_t generation_ = 0;

  std::unique_ptr<Layout> layout_;
  std::unique_ptr<PieceTable> table_;
  std::unique_ptr<Affinity> affinity_;
  std::unique_ptr<Matcher> matcher_;
  std::unique_ptr<Planner> planner_;
  std::unique_ptr<Evictor> evictor_;
  std::unique_ptr<Leftovers> leftovers_;  // with affinity_fix=evict
  std::unique_ptr<StandDown> stand_down_;
  std::map<std::pair<int32_t, uint64_t>, Votes> votes_;
  std::map<uint64_t, bool> native_files_;
  uint64_t unlisted_bytes_ = 0;  // of model files that the template does not have
  std::map<int32_t, uint64_t> node_bytes_;
  uint32_t stale_files_ = 0;
  uint32_t synthesized_files_ = 0;
  uint64_t first_event_ns_ = 0;
  bool constrained_ = false;
  bool evict_all_ = false;
  Checkpoint checkpoint_;
  uint64_t saved_ns_ = 0;        // last event when progress was saved
  uint64_t saved_released_ = 0;  // what had been released then
};

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_SERVICE_H_
