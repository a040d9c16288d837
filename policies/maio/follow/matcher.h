// SPDX-License-Identifier: Apache-2.0
//
// Where the front end is: turns events into positions in the groups'
// sequences.  Tolerates disorder: every (group, file) is a stream of its own,
// because loaders read several files side by side, repeat reads, skip parts
// and start again.
//
// Two marks per stream: `front` is where prefetch goes on from, `pass` is what
// the process has really read.  Faults that are not the process's own access
// (populate, get_user_pages) move the first only.
//
// Paper: section 4.1, "interruptible prefetching" and "burn after reading".
#ifndef POLICIES_MAIO_FOLLOW_MATCHER_H_
#define POLICIES_MAIO_FOLLOW_MATCHER_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <vector>

#include "policies/maio/follow/layout.h"
#include "policies/maio/follow/piece_table.h"

namespace ppc::maio {

enum class SyncState { kSync, kDrift, kLost };
const char* SyncName(SyncState state);

struct Observation {
  uint32_t group = 0;  // slot
  uint32_t file = 0;   // index in the layout
  uint64_t first_page = 0;
  uint64_t end_page = 0;
  uint32_t open_id = 0;
  bool miss = false;
  bool user = true;
  bool idle_loader = false;  // nothing of ours is in flight for the group
  uint64_t now_ns = 0;
};

struct MatchResult {
  bool known = false;
  bool moved = false;    // prefetch must be planned anew: jump, rewind or restart
  int32_t foreign = -1;  // slot of a group that lists the range, when this one does not
};

struct Stream {
  uint32_t front = 0;         // list index the reader is in or comes to next
  uint32_t pass = 0;          // list indexes below are read
  uint64_t front_page = 0;    // within the piece at front
  uint64_t demand_first = 0;  // pages the front end itself loads: its last miss
  uint64_t demand_page = 0;
  uint64_t pos = 0;
  uint64_t last_event = 0;  // number of the group's event
  uint32_t target = 0;      // tentative jump
  uint32_t jump_hits = 0;
  uint32_t rewinds = 0;
  uint32_t skipped = 0;  // uses that jumps have gone over
  uint32_t open_id = 0;  // by which it is read
  bool started = false;
  bool user = false;  // the process itself has touched it
  bool active = false;
  bool was_leader = false;  // the group's position has been here since it became active
};

// Uses that were passed one after the other, and nothing between them.
struct PassedRun {
  // Cursor::consumed when the first was passed, or what it will be, see Advance.
  uint64_t stamp = 0;
  uint32_t file = 0;
  uint32_t index = 0;  // of the first, in the group's list of the file
  uint32_t count = 0;
  bool closed = false;  // something was taken out since: what is passed next does not follow it
};

struct Cursor {
  std::vector<Stream> streams;        // per file
  std::vector<uint32_t> active;       // files with an active stream
  std::deque<PassedRun> passed_runs;  // passed, not burnt, in the order of reading
  uint64_t pos = 0;                   // position in the sequence
  uint64_t consumed = 0;              // bytes passed, whatever the order
  uint64_t events = 0;
  uint64_t last_ns = 0;
  uint64_t history = ~0ull;  // known events, newest in bit 0
  int known_events = 64;     // bits of it that are set
  uint32_t far_file = 0;
  uint32_t far_run = 0;
  uint32_t lost_runs = 0;
  double rate = 0;  // bytes per ns, smoothed; 0 = not known yet
  uint64_t rate_ns = 0;
  uint64_t rate_consumed = 0;
  bool dropped = false;  // holds no pages any more (worker is gone)
  bool waits = false;    // nothing is loaded for it, see cache_use.h
  SyncState state = SyncState::kSync;
};

class Matcher {
 public:
  Matcher(PieceTable* table, uint64_t window_bytes, uint64_t beacon_bytes);

  MatchResult Observe(const Observation& o);
  // The service reads something else: the template is of no use to any group until its own data
  // is read again.
  void LoseAll();
  void Close(uint32_t group, uint32_t file, uint32_t open_id);
  // The group rests: what it is in is taken for read.
  void Rest(uint32_t group);
  // The group has read something of these pages already.
  bool HasRead(uint32_t group, uint32_t file, uint64_t first_page, uint64_t end_page) const;
  // The worker starts again: everything is ahead of it.
  void Restart(uint32_t group);
  // The worker is gone: its uses no longer hold pages.
  void Drop(uint32_t group);

  // The group is at the end of each file that it reads, by populating or by its own reads.
  bool IsAtEnd(uint32_t group) const;

  std::vector<Cursor>& cursors() { return cursors_; }
  const std::vector<Cursor>& cursors() const { return cursors_; }
  uint64_t out_of_order_bytes(uint32_t group) const;

  uint64_t matched() const { return matched_; }
  uint64_t unknown() const { return unknown_; }
  // Events of a group on pages that another group lists and this one does not.
  uint64_t foreign() const { return foreign_; }
  uint64_t jumps() const { return jumps_; }

 private:
  struct Arrival {
    uint32_t first = 0;
    uint32_t last = 0;
    bool found = false;
  };

  Arrival Find(const Observation& o, const Stream& stream, uint32_t first, uint32_t last) const;
  bool Near(uint32_t group, uint32_t file, uint32_t from, uint32_t to) const;
  bool AcceptJump(const Observation& o, Stream* stream, const Arrival& a);
  bool DetectRewind(const Observation& o, Stream* stream, const Arrival& a);
  void Advance(const Observation& o, Stream* stream, const Arrival& a);
  bool MoveCursor(const Observation& o, Stream* stream);
  void Pass(uint32_t group, uint32_t file, uint32_t index, uint64_t later = 0);
  void Finish(uint32_t group, uint32_t file, bool closed);
  bool HasNoBeacon(uint32_t piece) const;
  // No more is left from a use on than may be read without being told of.
  bool IsNearEnd(uint32_t group, uint32_t file, uint32_t index) const;
  // The last beacon that is told of a file may lie so much before the end of what is read.
  uint64_t tail_bytes() const {
    return 2 * std::max<uint64_t>(beacon_pages_, layout_->piece_pages()) * kPage;
  }
  void Settle(uint32_t group);
  void Note(Cursor* cursor, bool known);
  void UpdateRate(Cursor* cursor, uint64_t now_ns);

  PieceTable* table_;
  const Layout* layout_;
  uint64_t window_pages_;
  uint64_t beacon_pages_;
  std::vector<Cursor> cursors_;
  uint64_t matched_ = 0;
  uint64_t unknown_ = 0;
  uint64_t foreign_ = 0;
  uint64_t jumps_ = 0;
};

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_FOLLOW_MATCHER_H_
