// SPDX-License-Identifier: Apache-2.0
// Owns the way of an event into the policy: drained, merged, its file and its reader known, or held
// until they are.  Nothing here allocates per event once its buffers have grown.
// Threads: the executor's; what look-ups need is done on the job queues' threads.
// Paper: section 3.2 (policy executor).
#ifndef PPC_DAEMON_EXEC_EVENT_INTAKE_H_
#define PPC_DAEMON_EXEC_EVENT_INTAKE_H_

#include <ppc.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <unordered_set>
#include <vector>

#include "daemon/backend/backend.h"
#include "daemon/cache/demand_meter.h"
#include "daemon/cache/loader_pool.h"
#include "daemon/exec/auto_services.h"
#include "daemon/exec/event_recorder.h"
#include "daemon/exec/file_table.h"
#include "daemon/exec/guard.h"
#include "daemon/exec/held_events.h"
#include "daemon/exec/job_queue.h"
#include "daemon/exec/policy_lists.h"
#include "daemon/exec/residency_scan.h"
#include "daemon/exec/service_table.h"
#include "daemon/policy/policy_host.h"

namespace ppc {

// Owns merging contiguous misses of one thread and file within a drained batch, so that a
// policy is called per stretch and not per page or window.
// Threads: the executor's.  No allocation after the first batches.
// Paper: section 3.2 (policy executor aggregates contiguous misses).
class Aggregator {
 public:
  explicit Aggregator(size_t max_batch);

  // Sorts `batch` by time and merges.  The result is valid until the next call; a merged miss
  // stands where its first part stood and carries the time of its last.
  std::span<const Event> Merge(std::span<Event> batch);
  uint64_t Merged() const { return merged_; }

 private:
  // Last miss of a (thread, file) in this batch; direct-mapped, a collision only merges less.
  struct Slot {
    uint64_t batch = 0;
    size_t index = 0;
  };
  static constexpr size_t kSlots = 1024;
  static bool Continues(const Event& before, const Event& next);

  std::vector<Event> out_;
  std::array<Slot, kSlots> slots_{};
  uint64_t batch_ = 0;
  uint64_t merged_ = 0;
};

// Counts unless said otherwise.
struct IntakeStats {
  uint64_t events = 0;      // taken from the rings
  uint64_t own_events = 0;  // caused by ourselves, ignored
  uint64_t lost_marks = 0;  // events that say others before them were lost
  uint64_t unresolved = 0;  // of a file that is gone
  uint64_t held = 0;        // waited for a look-up
  uint64_t held_lost = 0;   // too many waited
  uint64_t strangers = 0;   // of processes that belong to none of the started services
  uint64_t misses = 0;      // as given to the policy, after merging
  uint64_t miss_bytes = 0;
  uint64_t progress = 0;
  uint64_t accesses = 0;
};

class EventIntake {
 public:
  static constexpr size_t kFilesPerJob = 16;  // that are looked up

  static constexpr size_t kBatch = 512;

  struct Parts {
    Backend* backend = nullptr;
    LoaderPool* loader = nullptr;
    PolicyHost* host = nullptr;
    PolicyLists* lists = nullptr;
    ResidencyScan* residency_scan = nullptr;
    FileTable* files = nullptr;
    ServiceTable* services = nullptr;
    DemandMeter* demand = nullptr;
    std::atomic<uint64_t>* own_cache = nullptr;
    AutoServices* autos = nullptr;      // may be nullptr
    JobQueue* control = nullptr;        // looks files up
    JobQueue* lookups = nullptr;        // looks processes up, behind which a message waits
    EventRecorder* recorder = nullptr;  // may be nullptr
    Guard* guard = nullptr;             // may be nullptr
  };
  struct Options {
    uint64_t window_bytes = 1 << 20;  // what a miss makes the kernel read
    bool manual = false;              // nothing is done on other threads
  };

  EventIntake(Parts parts, Options options);

  void SetTellsProgress(bool on) { tells_progress_ = on; }

  // Gives a batch of the events that are there to the policy; how many they were, own ones
  // included.
  size_t DrainBatch();
  // Handles the events that are there, so that what is done next knows of all that came before
  // it, and then calls `next`: at once, or when the readers of those events are known, or, where
  // ExpirePendingMessages is called, after two seconds.  service: only its readers, of whatever
  // else may be known of the others; nullopt: any.
  void CatchUp(std::function<void()> next, std::optional<int> service = std::nullopt);
  // Lets messages proceed after two seconds even if some reader is still unknown.
  void ExpirePendingMessages(uint64_t now_ns);
  // Tries all held events again.
  void ReleaseHeld();
  // The same where a look-up has been answered since: once for all answers of a turn.
  void NoteAnswer() { has_answer_ = true; }
  void ReleaseAnswered();

  // The clock as read for the last batch.
  uint64_t BatchNs() const { return batch_ns_; }
  const IntakeStats& Stats() const { return stats_; }
  uint64_t Merged() const { return aggregator_.Merged(); }

 private:
  // What a message is to do next, once.
  struct PendingMessage {
    std::function<void()> next;
    std::optional<int> service;
    uint64_t until_ns = 0;
    int rounds = kMaxPendingRounds;
  };
  void WhenReadersAreKnown(const std::shared_ptr<PendingMessage>& message);
  void BeginBatch();
  void EndBatch();
  void Dispatch(const Event& event);
  // held: when it came; nullptr: now.
  bool Deliver(const Event& event, const Arrival* held);
  const FileCopy* KnownFileOf(uint64_t file);
  void LookUpFile(uint64_t file);
  void LookUpAhead(const Event& event);
  void AskForFiles();
  void LearnFile(uint64_t file);
  void NoteLoss();
  bool TakeLoss(int tgid, const Arrival& arrival, Service* service);
  bool MustWait(std::optional<int> service) const;
  void TellGuard(const Event& event, const Service& service, uint64_t file_bytes);
  void TellGuardOfMiss(const Event& event, const Service& service, uint64_t file_bytes);
  void HandleMiss(const Event& event, Service* service, miss_io* miss);
  void EvictFor(Service* service, miss_io* event);
  uint64_t ReadForMiss(const Event& event) const;

  static constexpr uint64_t kMissNs = 100 * 1000 * 1000;  // between two misses told to the loader
  static constexpr size_t kRecentFiles = 64;
  static constexpr size_t kMaxLosers = 4096;
  static constexpr uint64_t kNearLossNs = 2'000'000'000;  // readers at work are told of more often
  static constexpr int kMaxCatchUp = 256;      // batches: readers may add events all the time
  static constexpr int kMaxPendingRounds = 8;  // rounds of look-ups that a message waits for
  static constexpr uint64_t kMaxPendingNs = 2'000'000'000;  // and no longer: a process may hang

  const Parts parts_;
  const Options options_;
  const int own_tgid_;
  bool tells_progress_ = true;
  Aggregator aggregator_;
  IntakeStats stats_;
  std::vector<Event> batch_;
  uint64_t batch_number_ = 0;  // number
  uint64_t batch_demand_ = 0;
  bool batch_is_above_ = false;  // the policy is to be asked what to drop after the batch
  uint64_t batch_ns_ = 0;        // the clock, read once for all events of a batch
  std::array<FileCopy, kRecentFiles> recent_files_;  // direct-mapped
  std::unordered_set<uint64_t> asked_files_;
  std::vector<uint64_t> wanted_files_;       // of these, the ones that this batch has asked for
  std::unordered_set<uint64_t> gone_files_;  // look-ups have just said so
  bool has_answer_ = false;
  HeldEvents held_;
  bool has_lost_ = false;            // ever
  std::unordered_set<int> lost_of_;  // processes whose next event is to say so
  std::vector<std::shared_ptr<PendingMessage>> pending_;
};

}  // namespace ppc

#endif  // PPC_DAEMON_EXEC_EVENT_INTAKE_H_
