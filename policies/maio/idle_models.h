// SPDX-License-Identifier: Apache-2.0
//
// Models that one service reads by turns in a memory group that does not hold all of them.  LRU
// evicts the beginning of the model that was read before, which is needed first when it is read
// again: until its reader comes to what is left, this has been evicted for it, and all of it is
// read again.  Here the end of the idle model goes instead, a little before memory is full.  Once
// the models come one after the other, what was read last is needed last: it makes room for itself.
//
// A model is what the service reads between two rests.  Whether it is idle the kernel shows: LRU
// takes its beginning, and keeps what was used without an event.  What is mapped stays, but for
// what its reader has unmapped once it had read it, the turn before.
//
// Owns what may be left of each file; called from the policy's one thread.
#ifndef POLICIES_MAIO_IDLE_MODELS_H_
#define POLICIES_MAIO_IDLE_MODELS_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "policies/maio/base/run.h"
#include "policies/maio/base/tuning.h"
#include "policies/maio/follow/evictor.h"
#include "ppc.hpp"

namespace ppc::maio {

class IdleModels {
 public:
  // run outlives this.
  explicit IdleModels(const ServiceRun* run);

  // Every event of the service.
  void Note(const miss_io& event) {
    if (!is_on_ || event.kind > PPC_ACCESS) return;
    const bool goes_on =
        file_ != nullptr && event.file == file_->number && event.time_ns < used_ns_ + kQuietNs;
    used_ns_ = std::max(used_ns_, goes_on ? event.time_ns : 0);
    // The usual event says again where the reader is.
    if (goes_on && event.kind >= PPC_PROGRESS && event.offset / kChunkBytes == at_ / kChunkBytes)
      return;
    if (goes_on || Begin(event)) NoteRead(event);
  }
  // The service has rested between two models, or within one.
  bool MayHaveIdle() const { return turn_ > 1; }
  // Makes room; held: as Evictor's.  next_load: the file of what is loaded next, 0: nothing is.
  // False: there is no other model, or this one does not fit, either.
  bool Evict(const Evictor::Held& held, uint64_t next_load, IoList* out);
  bool Owns(uint64_t cookie) const { return cookie == cookie_; }
  void Done(const ppc_result& result);
  // Hits are to be told of: what is read from the cache is not idle.
  bool WantsHits() const { return lost_ != 0; }

 private:
  static constexpr uint32_t kDropped = 1u << 31;
  struct File {
    uint64_t number = 0;
    uint64_t bytes = 0;
    uint32_t used = 0;           // the number of the last turn
    uint64_t begun_ns = 0;       // in it: the order in which the files of a model are read
    bool is_mapped = false;      // as a drop showed
    bool unmaps = false;         // its reader does, once it has read it
    bool was_evicted = false;    // its beginning, by LRU, since the model was read twice in a row
    std::vector<uint32_t> read;  // by chunk, in which turn; 0: not; kDropped: it was, since
  };

  bool Begin(const miss_io& event);
  void NoteRead(const miss_io& event);
  bool IsOfModel(const File& file) const { return file.used == turn_ || file.used == before_; }
  bool IsEvicted(File* first) const;
  File* Last(uint32_t turn, size_t* chunk);
  File* Victim(bool may_take_idle, size_t* chunk);
  uint64_t Wanted(const ppc_memory& memory, bool is_loading);

  const ServiceRun* const run_;
  const bool is_on_;
  const uint64_t cookie_;
  std::unordered_map<uint64_t, File> files_;
  std::map<uint32_t, File*> idle_;  // the first file of each idle model, by the model's last turn
  File* file_ = nullptr;            // that is read
  uint64_t at_ = 0;                 // where in it
  uint64_t used_ns_ = 0;
  uint32_t turn_ = 0;
  uint32_t before_ = 0;                 // the last turn of the model that is read
  uint32_t switches_ = kLeastSwitches;  // from model to model, one after the other
  bool comes_by_turns_ = false;         // the model that is read
  uint64_t missed_ = 0;                 // bytes, since room was made last
  uint64_t dropping_ = 0;               // asked for, memory still counts it
  uint64_t lost_ = 0;        // chunks, dropped and not read since; 0 a while after the last
  uint64_t dropped_ns_ = 0;  // when the last was
  bool uses_limit_ = false;
};

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_IDLE_MODELS_H_
