// SPDX-License-Identifier: Apache-2.0
// Owns the guard: a record, in cells of 2 MiB per file, of what policies had dropped and loaded and
// of what became of it; and the limits that follow for each service.  It trusts no policy.  The
// aim is that a service reads no more, and no later, than without PPC, beyond a bounded first
// mistake; docs/runtime.md and sim say where that is not reached.
//
// Regret: dropped for a policy, missed again by a reader, and without the drop still cached: what
// the kernel would have inserted for the service since its last use is less than the room that it
// has. Churn: dropped, and loaded again for the policy before a reader missed it. Waste: loaded and
// never read.  Vanished: loaded, and gone before it was read without a drop of ours. Displaced: a
// reader's page that was cached, was not dropped by us, and is missed while loads lie unread: they
// may have taken its place.  It is counted, and limits nothing.
//
// Threads: the executor's; the guard asks nobody: clock, memory and samples of the page cache are
// given to it.  No allocation per event once the files' cells exist.
#ifndef PPC_DAEMON_EXEC_GUARD_H_
#define PPC_DAEMON_EXEC_GUARD_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace ppc {

// What `status` shows of a service.  Bytes.
struct GuardView {
  std::string state = "open";
  std::string reason;
  uint64_t regret = 0;
  uint64_t churn = 0;
  uint64_t waste = 0;
  uint64_t vanished = 0;
  uint64_t displaced = 0;
  uint64_t credit = 0;  // that may be dropped of mapped pages at once
  uint64_t window = 0;  // that may lie loaded and unread; 0: as much as there is memory
  uint64_t refused_loads = 0;
  uint64_t refused_drops = 0;  // of mapped pages alone, too
  uint64_t failing = 0;        // of refused_loads, since loading it failed
  uint64_t failed_file = 0;    // of which loads failed so often that it is told of; 0: of none
  int failed_error = 0;        // an errno, 0: none was told
};

class Guard {
 public:
  static constexpr uint64_t kUnmapCredit = 64 << 20;
  static constexpr uint64_t kSmallWindow = 64 << 20;
  static constexpr uint64_t kNearWindow = 8 << 20;        // where loads vanish
  static constexpr uint64_t kVanishShare = 20;            // 5% of what is read may vanish meanwhile
  static constexpr uint64_t kSurvivalNs = 2'000'000'000;  // loads that last so long do not vanish
  static constexpr uint64_t kLeastLimit = 16 << 20;       // of regret and of waste
  static constexpr uint64_t kModelShare = 50;             // 2% of the model
  static constexpr uint64_t kNsPerSecond = 1'000'000'000;
  static constexpr uint64_t kRenewalNs = 60 * kNsPerSecond;
  static constexpr uint64_t kBackOffNs = 60 * kNsPerSecond;
  static constexpr size_t kMaxCells = size_t{1} << 17;
  static constexpr size_t kMaxFiles = 16384;
  static constexpr int kFailuresAMinute = 2;

  // The place of a service in the guard: 0 is the mount itself, else the service's number + 1.
  using Slot = uint16_t;

  // A reader's event.
  struct ReaderAccess {
    uint64_t file = 0;
    uint64_t file_bytes = 0;
    uint64_t offset = 0;
    uint64_t length = 0;  // of a miss: what the kernel inserted
    bool is_miss = false;
    bool is_open = false;
  };
  // The beginning of a range, and whether it may be loaded or dropped.
  struct Verdict {
    uint64_t bytes = 0;
    bool is_allowed = true;
    bool unmap = false;
  };
  struct Sample {
    uint64_t file = 0;
    uint64_t offset = 0;
    uint64_t length = 0;
    uint16_t loaded = 0;       // pages, when it was taken
    bool has_service = false;  // it was loaded for one that has not ended
  };

  Guard();
  ~Guard();
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

  // A service begins, under an ID by which its earlier starts are remembered; the load of one is
  // over; one ends.
  void Begin(Slot slot, const std::string& id, uint64_t now_ns);
  void EndLoad(Slot slot, bool is_stopped = false);
  void EndLoads();
  void End(Slot slot);
  // Its process failed: what is loaded from here on is for a start that may come.
  void Await(Slot slot);

  // A start that is guessed: so much is submitted for it until a reader shows that it is one.
  static constexpr uint64_t kGuessBytes = 64 << 20;
  void BeginGuess(Slot slot) { Of(slot).guess_left = kGuessBytes; }
  void EndGuess(Slot slot) { Of(slot).guess_left = UINT64_MAX; }
  uint64_t GuessedBytes(Slot slot) {
    return kGuessBytes - std::min(kGuessBytes, Of(slot).guess_left);
  }
  // By readers, cached or not; a little more or less.
  uint64_t ReadBytes(Slot slot) { return Of(slot).read; }

  // Whether hits are told of: else a page that was loaded and read looks unread.
  void SetHitsSeen(bool on) { are_hits_seen_ = on; }
  // Much lies unread, as far as is known: hits are to be told of, whatever the policy wants.
  bool WantsHits() const { return wants_hits_; }
  // What the kernel alone could cache for the service, and what of that policies are to use.
  void SetRoom(Slot slot, uint64_t bytes, uint64_t usable);
  // The policy makes the room that it loads into, for a reader that passes over more than there is
  // memory.  What such a reader has mapped is read without an event: the first pass with the policy
  // drops what would have stayed, as far as is known, and is let.
  void SetPasses(Slot slot, bool on, uint64_t now_ns);
  void Tick(uint64_t now_ns);

  void NoteAccess(Slot slot, const ReaderAccess& access, uint64_t now_ns);
  // The same of a hit on [offset, at].  Inline: the usual event says again where a reader is.
  void NoteHit(Slot slot, uint64_t number, uint64_t file_bytes, uint64_t offset, uint64_t at,
               uint64_t now_ns) {
    File* const file = recent_[number % kRecent];
    if (file == nullptr || file->number != number || file_bytes > file->bytes || at >= file->bytes)
      return NoteMove(slot, FileOf(number, std::max(file_bytes, at + 1)), offset, at, now_ns);
    const Cell& cell = file->cells[at >> shift_];
    if (cell.loaded != 0 || (cell.flags & kHasCursor) == 0)
      return NoteMove(slot, file, offset, at, now_ns);
    Of(slot).used_ns = now_ns;
  }
  // Results; `bytes` of the range were loaded, dropped.
  struct RangeResult {
    uint64_t file = 0;
    uint64_t offset = 0;
    uint64_t size = 0;
    uint64_t bytes = 0;
    bool unmap = false;   // of a drop
    bool failed = false;  // of a load
    int error = 0;        // why
  };
  void NoteLoaded(Slot slot, const RangeResult& done, uint64_t now_ns);
  void NoteDropped(Slot slot, const RangeResult& done, uint64_t now_ns);

  // `queued`: bytes of the service that wait to be loaded already; is_waited: PPC_IO_WAITED.
  Verdict AllowLoad(Slot slot, uint64_t file, uint64_t offset, uint64_t size, uint64_t queued,
                    uint64_t now_ns, bool is_waited = false);
  Verdict AllowDrop(Slot slot, uint64_t offset, uint64_t size, bool unmap);
  // Bytes that may still be loaded before readers have read some of what lies unread.
  uint64_t WindowLeft(Slot slot, uint64_t queued);
  // How much a plan may ask for.
  uint64_t PlanBytes(Slot slot, uint64_t queued);

  // Cells of which it is to be seen whether what was loaded is still there; and what was.
  void TakeSamples(std::vector<Sample>* out);
  bool HasVanished() const { return has_vanished_; }  // the last samples say so
  // Loads vanished in the last load here, though there was memory for them: the next one begins
  // with the window of such loads, until what it holds survives.  `tell` is called when that
  // changes.
  void ExpectVanishing(bool on, std::function<void(bool)> tell) {
    expects_vanishing_ = on;
    tell_vanishing_ = std::move(tell);
  }
  void NoteSample(const Sample& sample, uint64_t resident, uint64_t now_ns);

  GuardView View(Slot slot) const;
  size_t Cells() const { return cells_; }
  uint64_t CellBytes() const { return uint64_t{1} << shift_; }

 private:
  static constexpr uint64_t kMiB = 1 << 20;
  static constexpr int kClockShift = 16;  // 32 bits of 64 KiB each
  static constexpr int kStampShift = 27;  // 16 bits of 134 ms each: the difference counts
  // A reader that is seen at two places of a file, no farther apart, has read what lies between.
  static constexpr uint64_t kPassBytes = 64 * kMiB;
  // At the beginning and the end of a file a reader may come and go without an event.
  static constexpr uint64_t kEdgeBytes = 8 * kMiB;
  // Without readers' events for so long, a load is over.
  static constexpr uint64_t kOverNs = 60 * kNsPerSecond;
  static constexpr uint64_t kMostRenewalNs = 600 * kNsPerSecond;
  static constexpr uint64_t kHalfLifeNs = 60 * kNsPerSecond;
  static constexpr uint64_t kFailureNs = 60 * kNsPerSecond;
  // What comes to light so soon after a limit was set belongs to the mistake that it was set for.
  static constexpr uint64_t kGraceNs = 3 * kNsPerSecond;
  static constexpr uint64_t kLostDropNs = 10 * kNsPerSecond;
  // Read by readers before it is judged how much of it had been loaded.
  static constexpr uint64_t kLeastEvidence = 64 * kMiB;
  static constexpr uint64_t kMostHits = uint64_t{1} << 30;  // that count
  static constexpr int kMaxLevel = 6;
  static constexpr size_t kSamples = 2;
  static constexpr size_t kManySamples = 64;
  static constexpr size_t kSampleSteps = 1024;              // cells looked through for them
  static constexpr uint32_t kNoCursor = uint32_t{1} << 31;  // far behind and ahead of each cell

  static uint16_t StampOf(uint64_t now_ns) { return static_cast<uint16_t>(now_ns >> kStampShift); }

  static std::string MiB(uint64_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }

  static uint64_t LimitOf(uint64_t model) { return std::max(kLeastLimit, model / kModelShare); }

  static void Take(uint64_t* from, uint64_t bytes) { *from -= std::min(*from, bytes); }

  static constexpr int kLeastShift = 21;
  static constexpr int kMostShift = 28;  // else 16 bits are too few for the pages of a cell
  // A sparse file may be of any size: what lies further on is not looked at.
  static constexpr uint64_t kMostFileBytes = uint64_t{1} << 40;

  // Counts of pages are of this cell's; a cell is at most 256 MiB.
  struct Cell {
    uint32_t used = 0;     // the service's clock when a reader was here last, + 1; 0: none was
    uint16_t at = 0;       // when something was loaded here last, see StampOf
    uint16_t dropped = 0;  // of pages that a reader had used, and neither missed nor loaded since
    uint16_t loaded = 0;   // and not read since
    uint16_t present = 0;  // inserted by readers' misses
    Slot owner = kNobody;
    uint16_t flags = 0;
  };
  static_assert(sizeof(Cell) == 16);
  static constexpr Slot kNobody = 0xffff;
  static constexpr uint16_t kIsKnown = 1;       // counts in its service's model
  static constexpr uint16_t kIsUnmapped = 2;    // what was dropped was mapped, perhaps
  static constexpr uint16_t kHasCursor = 4;     // a reader is here; one of several may lack it
  static constexpr uint16_t kIsAwaited = 0x20;  // dropped, and a reader was there since
  static constexpr uint16_t kEra = 0x18;        // of the service when something was dropped here

  static constexpr size_t kCursors = 4;
  struct File {
    uint64_t number = 0;
    uint64_t bytes = 0;
    uint64_t loaded = 0;                     // bytes, ever
    Slot counted_by = kNobody;               // whose total it is in
    std::array<uint32_t, kCursors> cursors;  // cells where readers are
    uint8_t next_cursor = 0;
    std::vector<Cell> cells;
  };

  enum class Drops : uint8_t { kOpen, kNoUnmap, kNone };
  enum class Loads : uint8_t { kOpen, kSmall, kNone };
  struct BackOff {
    uint64_t until_ns = 0;
    int level = 0;  // the next one lasts kBackOffNs << level
    bool IsFresh(uint64_t now_ns) const;
  };
  struct ServiceState {
    std::string id;
    uint64_t room = UINT64_MAX;
    uint64_t usable = UINT64_MAX;
    uint64_t clock = 0;  // what the kernel alone would have inserted
    uint64_t model = 0;  // of cells that were read or loaded
    uint64_t total = 0;  // of the files of which that is true
    uint64_t read = 0;
    uint64_t guess_left = UINT64_MAX;
    // In all.
    uint64_t regret = 0, churn = 0, waste = 0, vanished = 0, displaced = 0;
    uint64_t loaded = 0, refused_loads = 0, refused_drops = 0, failing = 0;
    // Judged, and forgotten by halves.
    uint64_t regret_now = 0, churn_now = 0, waste_now = 0;
    uint64_t seen_now = 0, missed_now = 0;
    uint64_t halved_ns = 0;
    // Loaded and not read.
    uint64_t unseen = 0;
    // Wasted, and not made up for by loads that were read since.  It stays in the window: else a
    // policy that drops what it has just loaded would load without end before a limit is set, and
    // while that is fresh.  What vanished counts until the next limit alone: memory may be short
    // for a while.
    uint64_t lost = 0;
    uint64_t gone = 0;
    uint64_t load_bytes = 0;  // of this start
    uint64_t load_waste = 0;
    uint64_t used_ns = 0;  // a reader's last event
    bool is_over = false;  // the load
    bool is_awaited = false;
    bool makes_passes = false;
    uint64_t passes_ns = 0;  // since when
    unsigned era = 0;        // the number of limits set to drops
    Drops drops = Drops::kOpen;
    Loads loads = Loads::kOpen;
    bool vanishes = false;       // loads are limited for what vanished
    uint64_t survival_ns = 0;    // since when loads survive that were expected to vanish
    uint16_t limited_stamp = 0;  // when they were, see StampOf
    BackOff drops_off, loads_off;
    uint64_t seen_since = 0;  // since loads were limited
    std::string reason;
    // The file of which loads failed first, until the next start.
    uint64_t failed_file = 0;
    int failed_error = 0;
    int failed_loads = 0;
    // The credit for drops of mapped pages.
    uint64_t credit = kUnmapCredit;
    uint64_t unmapped = 0;    // of which it is not known yet whether they come back
    uint64_t pending = 0;     // submitted
    uint64_t pending_ns = 0;  // since when, or when some of it was reported last
    uint64_t returned = 0;    // of `unmapped`
    uint64_t quiet_ns = 0;    // since when little has returned
    uint64_t renewal_ns = kRenewalNs;
    bool has_returned = false;
  };
  static uint16_t EraOf(const ServiceState& state) {
    return static_cast<uint16_t>(state.era * 8 & kEra);
  }
  struct Failure {
    uint64_t since_ns = 0;
    int tries = 0;
  };

  ServiceState& NewServiceState(Slot slot);
  ServiceState& Of(Slot slot) {
    const bool is_there = slot < services_.size() && services_[slot] != nullptr;
    return is_there ? *services_[slot] : NewServiceState(slot);
  }
  File* FileOf(uint64_t number, uint64_t bytes);
  void Grow(File* file, uint64_t bytes);
  void DoubleUnit();
  void Disown(Cell* cell);
  template <typename Goes>
  void Forget(Goes goes);
  void ForgetFiles();
  void ForgetFilesOfNobody();
  uint16_t CellPages(const File& file, size_t cell) const;
  static bool WouldStay(const ServiceState& state, const Cell& cell);
  static bool IsRecent(const ServiceState& state, const Cell& cell);
  static bool MovesClock(const ServiceState& state, const Cell& cell);
  void Learn(Slot slot, File* file, Cell* cell, uint64_t pages);
  void CountFile(Slot slot, File* file);
  void NoteMove(Slot slot, File* file, uint64_t offset, uint64_t at, uint64_t now_ns);
  void NoteFar(Slot slot, File* file, uint64_t offset, uint64_t at, bool is_miss, uint64_t now_ns);
  void Hit(Slot slot, ServiceState* reader, File* file, Cell* cell);
  void HitEnd(Slot slot, ServiceState* reader, File* file, size_t last);
  void Miss(Slot slot, File* file, size_t cell, uint64_t pages, uint64_t now_ns);
  void See(ServiceState* owner, Cell* cell);
  static void Stamp(Slot slot, const ServiceState& state, Cell* cell);
  static size_t CursorBefore(const File& file, uint32_t cell, uint32_t most);
  static void MoveCursor(File* file, size_t at, uint32_t cell);
  template <typename Each>
  void Spread(File* file, const RangeResult& done, Each each);
  static void Vanish(ServiceState* state, const Cell& cell, uint64_t bytes);
  void SetExpectation(bool vanishes);
  bool Survives(ServiceState* state, uint64_t now_ns);
  void Judge(ServiceState* state, uint64_t now_ns);
  void LimitDrops(ServiceState* state, Drops to, std::string reason, uint64_t now_ns);
  void LimitLoads(ServiceState* state, Loads to, std::string reason, uint64_t now_ns);
  void Renew(ServiceState* state, uint64_t now_ns);
  static bool IsAStart(const ServiceState& state);
  static bool Counts(const ServiceState& state, const Cell& cell, uint64_t now_ns);
  uint64_t Excess(const ServiceState& state) const;
  uint64_t UnmapLeft(const ServiceState& state) const;
  uint64_t LoadWindow(const ServiceState& state) const;
  bool IsFarOff(const ServiceState& state) const;
  uint64_t KeyOf(uint64_t file, uint64_t offset) const {
    return file * 0x9e3779b97f4a7c15 + (offset >> 21);
  }
  uint64_t AllowedByFailures(uint64_t file, uint64_t offset, uint64_t size, uint64_t now_ns,
                             bool* ok);

  static constexpr size_t kRecent = 16;
  static constexpr size_t kMaxFailures = 4096;
  static constexpr size_t kMaxHistory = 256;

  int shift_ = kLeastShift;
  size_t cells_ = 0;
  bool are_hits_seen_ = false;
  bool wants_hits_ = false;
  std::vector<std::unique_ptr<File>> files_;
  std::unordered_map<uint64_t, File*> by_number_;
  std::array<File*, kRecent> recent_{};
  std::vector<std::unique_ptr<ServiceState>> services_;
  std::unordered_map<uint64_t, Failure> failures_;
  std::map<std::string, int> wasted_starts_;  // one after the other, by ID
  size_t sample_file_ = 0;
  size_t sample_cell_ = 0;
  bool has_vanished_ = false;
  bool expects_vanishing_ = false;
  std::function<void(bool)> tell_vanishing_;
};

}  // namespace ppc

#endif  // PPC_DAEMON_EXEC_GUARD_H_
