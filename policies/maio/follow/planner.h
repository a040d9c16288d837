// SPDX-License-Identifier: Apache-2.0
//
// What to load next (paper, section 4.1, "interruptible prefetching"): from
// every group's position to the end of its sequence, nearest deadline first,
// as far as memory allows.  Owns the record of what is asked for and what came
// of it, so that the policy never relies on memory counters that lag.
#ifndef POLICIES_MAIO_FOLLOW_PLANNER_H_
#define POLICIES_MAIO_FOLLOW_PLANNER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "policies/maio/base/tuning.h"
#include "policies/maio/follow/affinity.h"
#include "policies/maio/follow/layout.h"
#include "policies/maio/follow/matcher.h"
#include "policies/maio/follow/piece_table.h"
#include "ppc.hpp"

namespace ppc::maio {

struct PlannerStats {
  uint64_t asked = 0;
  uint64_t loaded = 0;
  uint64_t redundant = 0;    // asked for and found resident
  uint64_t interrupted = 0;  // asked for and stopped
  uint64_t failed = 0;
  uint64_t given_up = 0;  // left to its readers since it failed too often
};

class Planner {
 public:
  Planner(PieceTable* table, Matcher* matcher, const Affinity* affinity, uint32_t service,
          uint64_t cookie_base);

  // Adds chunks of at most max_bytes in total (less: whole pieces only).
  void Plan(uint64_t max_bytes, const ppc_memory& memory, uint64_t now_ns, ppc::IoList* out);
  void Done(const ppc_result& result, uint64_t now_ns);
  // Called with a file of the layout that fails so often that it is left to its readers.
  void OnFileFailed(std::function<void(uint32_t)> see) { on_file_failed_ = std::move(see); }
  bool Owns(uint64_t cookie) const { return chunks_.count(cookie) != 0; }

  // Says when each range is needed (PPC_CAN_DEADLINES).
  void TellDeadlines() { tells_deadlines_ = true; }
  // Tells the backend that memory is too small for all, so that loads are dropped again meanwhile.
  void SetBurnt(bool on) { io_flags_ = on ? PPC_IO_BURN : 0; }

  // Some piece is to be loaded and not asked for.
  bool HasMore() { return Best().found; }
  // The number of the file of the next such piece; 0: there is none.
  uint64_t NextFile() {
    const Candidate next = Best();
    return next.found ? layout_->files()[next.file].number : 0;
  }
  // Bytes from a reader to the nearest piece that is absent and not asked for; at most `within`.
  uint64_t NearestAbsent(uint64_t within);
  // How far a group may read on before it meets what is not there; std::nullopt: all of it is.
  std::optional<uint64_t> ReadyAhead(uint32_t group) const;

  // Look for absent pieces again, from the group's front on.
  void Reset(uint32_t group);
  void Reopen(uint32_t piece);
  // The loads of a group were interrupted: what was queued will not be reported any more.
  void Interrupted(uint32_t group);
  // Chunks that were never reported (refused ranges) are taken for not loaded.
  void Expire(uint64_t now_ns);

  uint64_t queued_bytes(uint32_t group) const { return group_queued_[group]; }
  // Furthest position asked for, per group.
  uint64_t horizon(uint32_t group) const { return horizon_[group]; }
  bool finished() const { return finished_; }
  const PlannerStats& stats() const { return stats_; }

  // It is there, whoever loaded it.
  void Found(uint32_t piece);

 private:
  struct Chunk {
    uint32_t group = 0;
    uint32_t first = 0;  // piece
    uint32_t count = 0;
    uint64_t offset = 0;
    uint64_t bytes = 0;
    uint64_t reported = 0;  // bytes
    bool is_read = false;   // some of it from the disk
    uint64_t ns = 0;
    uint64_t deadline_ns = 0;                         // 0: not told
    std::vector<std::pair<uint64_t, uint64_t>> good;  // ranges of the file that are resident
    std::vector<std::pair<uint64_t, uint64_t>> bad;   // ranges in which something failed
  };
  struct Candidate {
    uint32_t group = 0;
    uint32_t file = 0;
    uint32_t index = 0;
    uint64_t ahead = 0;   // bytes in front of the reader
    double deadline = 0;  // ns from now
    bool found = false;
  };

  bool Next(uint32_t group, uint32_t file, uint32_t* index);
  uint64_t Ahead(const Cursor& cursor, uint32_t group, uint32_t file, uint64_t pos) const;
  Candidate Best();
  static bool IsFollowed(const Cursor& cursor);
  bool Plannable(const Piece& piece) const;
  std::optional<uint64_t> PosWithin(const UseList& list, uint32_t piece, uint32_t from,
                                    uint64_t reach) const;
  uint64_t Emit(const Candidate& c, uint64_t max_bytes, uint64_t now_ns, ppc::IoList* out);
  uint64_t StartOffset(const Candidate& c, const Piece& piece) const;
  int32_t TargetOfRun(const Candidate& c) const;
  void AddIos(const Chunk& chunk, int32_t xpu, ppc::IoList* out);
  void AddIo(const Chunk& chunk, uint64_t start, uint64_t end, int32_t xpu, ppc::IoList* out);
  double FastestRate() const;
  uint64_t DeadlineOf(const Candidate& c, uint64_t now_ns) const;
  void Close(std::map<uint64_t, Chunk>::iterator it);
  void Late(const ppc_result& result);
  void CountError(uint32_t file);
  void CountFailure(uint32_t piece);
  bool IsGivenUp(uint32_t piece) const;

  static constexpr uint8_t kMaxTries = 2;                // of a piece that fails
  static constexpr uint64_t kRefusedNs = 1'000'000'000;  // until loads that were refused are tried

  PieceTable* table_;
  const Layout* layout_;
  Matcher* matcher_;
  const Affinity* affinity_;
  uint32_t service_;
  uint64_t next_cookie_;
  std::vector<std::vector<uint32_t>> next_;  // [group][file]: list index to look at
  std::vector<uint64_t> horizon_;
  std::vector<uint64_t> group_queued_;
  std::map<uint64_t, Chunk> chunks_;
  uint64_t queued_ = 0;
  std::vector<uint32_t> errors_;                 // per file
  std::unordered_map<uint32_t, uint8_t> tries_;  // of pieces that failed
  std::function<void(uint32_t)> on_file_failed_;
  uint64_t refused_until_ns_ = 0;
  bool tells_deadlines_ = false;
  uint32_t io_flags_ = 0;  // of each load
  bool finished_ = false;
  bool exhausted_ = false;  // no list has anything to load until one is opened again
  PlannerStats stats_;
};

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_FOLLOW_PLANNER_H_
