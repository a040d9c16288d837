// SPDX-License-Identifier: Apache-2.0
//
// Models that are read by turns, by one process or several, in one memory group.  LRU evicts the
// beginning of the model that was read before, which its next reader needs first: until that reader
// comes to what is left, this has been evicted for it, and all of it is read again.  Here the end
// of the model that was read longest ago goes instead, a little before memory is full.  What is
// being read stays whole, as it would natively: it may be read next, too.
//
// A model is a set of files of one directory.  Owns how much of each may be left.  Called from the
// policy's one thread.
#ifndef POLICIES_MAIO_IDLE_MODELS_H_
#define POLICIES_MAIO_IDLE_MODELS_H_

#include <cstdint>
#include <string>
#include <unordered_map>

#include "policies/maio/follow/evictor.h"
#include "ppc.hpp"

namespace ppc::maio {

class IdleModels {
 public:
  explicit IdleModels(const ppc_context* context) : context_(context) {}

  // An event of a service.
  void Note(const miss_io& event);
  // held: as Evictor's.  is_loading: what is read now is loaded ahead, below the threshold; else
  // its reader takes what there is.
  void Evict(const Evictor::Held& held, bool is_loading, IoList* out);
  // False: it is the result of another's request.
  bool Done(const ppc_result& result);
  // Of the last event.
  uint32_t service() const { return service_; }
  // Hits are to be told of: to the guard, and since what is read from the cache is not idle.
  bool WantsHits() const { return has_dropped_; }

 private:
  struct File {
    std::string path;
    std::string model;  // "": it is none
    uint64_t bytes = 0;
    uint64_t end = 0;  // of what may be left
    uint64_t used_ns = 0;
  };

  uint64_t DropLast(const Evictor::Held& held, IoList* out);

  const ppc_context* const context_;
  std::unordered_map<uint64_t, File> files_;  // by number
  std::string read_;                          // the model of the last event
  uint32_t service_ = 0;
  uint64_t missed_ = 0;    // bytes, since it was asked last
  uint64_t dropping_ = 0;  // asked for, memory still counts it
  bool has_dropped_ = false;
};

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_IDLE_MODELS_H_
