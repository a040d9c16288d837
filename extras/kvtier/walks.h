// SPDX-License-Identifier: Apache-2.0
// Owns all readers' walks: assigns objects to walks, ends walks, and plans their loads.
// Threads: one at a time.
#ifndef POLICIES_KVTIER_WALKS_H_
#define POLICIES_KVTIER_WALKS_H_

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "extras/kvtier/clock_cache.h"
#include "extras/kvtier/object_table.h"
#include "extras/kvtier/prefetch_budget.h"
#include "extras/kvtier/walk.h"
#include "ppc.hpp"

namespace ppc::kvtier {

// A reader has come to an object.
struct Arrival {
  Reader reader;
  uint32_t service = 0;  // charged
  int32_t xpu = PPC_NO_XPU;
  Key key = 0;
  uint64_t first_page = 0;  // first page read, in the object
  uint64_t pages = 0;
  uint64_t now_ns = 0;
  bool is_miss = false;
};

class Walks {
 public:
  static constexpr size_t kMaxWalks = 32;         // at once, of all readers
  static constexpr size_t kMaxWalksOfReader = 4;  // concurrent requests of one reader
  static constexpr uint32_t kMaxStrays = 16;      // unexpected objects until a chain is given up

  struct Options {
    uint64_t block_bytes = 0;
    // Interrupts a service's load group that no reader wants any more.
    std::function<void(uint32_t service, uint32_t group)> interrupt;
  };

  Walks(ObjectTable* table, ClockCache* cache, PrefetchBudget* budget, Options options);

  void Arrive(const Arrival& arrival);
  // Adds loads for a service, about max_bytes in total, and at most most_ahead ahead of each
  // reader.
  void Plan(uint32_t service, uint64_t max_bytes, uint64_t most_ahead, uint64_t now_ns,
            ppc::IoList* out);
  void Done(const ppc_result& result, uint64_t now_ns);
  // Ends walks whose readers have stopped.
  void Tick(uint64_t now_ns);

  size_t size() const;
  size_t deepest() const;  // most objects ahead of a reader
  uint64_t late() const { return late_; }
  uint64_t untracked() const { return untracked_; }

 private:
  Walk* NewestOf(const Reader& reader);
  Walk* Expecting(const Object& object, const Arrival& arrival);
  void Account(Object* object, const Arrival& arrival);
  void Stray(const Arrival& arrival);
  Walk* Begin(const Arrival& arrival);
  void End(Walk* walk, bool is_left);
  void Ask(Walk* walk, uint64_t max_bytes, uint64_t now_ns, uint64_t* left, ppc::IoList* out);
  void LoadDone(Object* object, const ppc_result& result, uint64_t end, uint64_t now_ns);

  static constexpr uint64_t kIdleNs = 2'000'000'000;
  static constexpr uint64_t kIdleSteps = 256;
  // Objects requested although they should be cached, after one was not.
  static constexpr uint32_t kDistrust = 1024;

  ObjectTable* const table_;
  ClockCache* const cache_;
  PrefetchBudget* const budget_;
  const Options options_;
  std::array<std::unique_ptr<Walk>, kMaxWalks> walks_;
  PrefetchDistance last_distance_;  // of the walk that ended last
  uint32_t last_service_ = 0;
  uint64_t turn_ = 0;
  uint32_t distrust_ = 0;
  uint64_t late_ = 0;
  uint64_t untracked_ = 0;
};

}  // namespace ppc::kvtier

#endif  // POLICIES_KVTIER_WALKS_H_
