// SPDX-License-Identifier: Apache-2.0
//
// A mixture of experts: a token needs a few experts of each layer, and of each a long piece in
// every one of some tensors.  Where memory is short a service that computes from its mapping waits
// for the kernel's small windows, one after the other.  Here the first miss in a piece loads the
// rest of it, and then the other pieces of the same expert.  What has to go for them the kernel
// chooses, as it does for the reader's own misses: it alone sees what is used.
//
// Called from the policy's one thread, but for Find.
#ifndef POLICIES_MAIO_EXPERTS_H_
#define POLICIES_MAIO_EXPERTS_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "policies/maio/base/run.h"
#include "policies/maio/base/tuning.h"
#include "policies/maio/follow/layout.h"
#include "policies/maio/synth/synth.h"
#include "ppc.hpp"

namespace ppc::maio {

class Experts {
 public:
  struct Piece {
    uint64_t file = 0;  // number
    uint64_t offset = 0;
    uint64_t bytes = 0;
    std::string expert;  // of which layer and which one: its pieces have the same
  };
  struct File {
    std::string path;
    uint64_t number = 0;
  };
  static std::vector<File> FilesOf(const Layout& layout);
  // By file and offset; nothing where headers show no experts.  Reads headers; any thread.
  static std::vector<Piece> Find(ModelSource* source, std::span<const File> files);

  // run outlives this.
  Experts(const ServiceRun* run, std::vector<Piece> pieces);

  // What is to be loaded for a miss.
  void Prefetch(const miss_io& miss, IoList* out);
  bool Owns(uint64_t cookie) const { return cookie == cookie_; }
  // Positions are to be told: whether what was loaded is read shows in nothing else.
  bool IsOn() const { return asked_ns_ != 0 && run_->Now() < asked_ns_ + kExpertsOnNs; }
  void Describe(nlohmann::json* out) const;

 private:
  struct Place {
    uint64_t file = 0;
    uint64_t offset = 0;
    uint64_t bytes = 0;
    uint32_t expert = 0;
    uint64_t asked_ns = 0;      // 0: never
    uint64_t asked_before = 0;  // bytes, of all
  };
  bool WasAsked(const Place& place, uint64_t now_ns) const;
  void Add(Place* place, uint32_t group, uint64_t now_ns, IoList* out);

  const ServiceRun* const run_;
  const uint64_t cookie_;
  std::vector<Place> places_;                     // by file and offset
  std::vector<std::vector<uint32_t>> by_expert_;  // places
  uint64_t asked_ = 0;                            // bytes
  uint64_t asked_ns_ = 0;                         // when last; 0: never
  uint64_t missed_to_ = 0;                        // where the last miss ended
};

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_EXPERTS_H_
