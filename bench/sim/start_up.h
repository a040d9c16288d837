// SPDX-License-Identifier: Apache-2.0
// Owns one start-up: builds the machine, runs the service under the system, counts.
// Threads: one.
#ifndef PPC_BENCH_SIM_START_UP_H_
#define PPC_BENCH_SIM_START_UP_H_

#include <memory>
#include <string>
#include <vector>

#include "bench/sim/experiment.h"
#include "bench/sim/runner.h"
#include "daemon/backend/event_log.h"

namespace ppc::sim {

inline constexpr uint64_t kMarginBytes = 16 << 20;  // of a limit, as the demo

struct StartUpResult {
  ServiceReport report;
  uint64_t zero_ns = 0;
  CacheStats cache;
  DiskStats disk;
  uint64_t model_bytes = 0;
  uint64_t unused = 0;   // read, never touched
  uint64_t needed = 0;   // touched by anybody
  uint64_t at_zero = 0;  // resident when the clock or, earlier, the policy started
  Json status;
  std::vector<Sample> series;
};

// One start-up on a machine of its own; only the directory outlives it.
class StartUp {
 public:
  StartUp(const Scenario& scenario, uint64_t seed, const std::string& directory)
      : s_(scenario), seed_(seed), directory_(directory) {}

  Result<StartUpResult> Go();

 private:
  Status Build();
  Result<uint64_t> AddFiles(PageCache* cache);
  ServiceReport Serve(bool through_ppc);
  void Main();
  Status StartRunner();
  Result<Json> StartService(bool is_resumed);
  Status StartPolicy();
  void DieOnce(uint64_t disk_bytes);
  void Cat(uint32_t processes);
  void Warm(double share);
  void ReplaceShard();
  void SampleOften();
  void Count();
  std::vector<int8_t> Places() const;
  ServiceOptions ServiceOf() const;

  const Scenario& s_;
  const uint64_t seed_;
  const std::string directory_;
  std::unique_ptr<Scheduler> scheduler_ = std::make_unique<Scheduler>();
  std::unique_ptr<Disk> disk_;
  std::unique_ptr<PageCache> cache_;
  std::unique_ptr<Kernel> kernel_;
  ModelFiles model_;
  EventLog log_;
  std::vector<int> xpu_nodes_;
  UniqueFd checkpoints_;  // outlive runners
  std::unique_ptr<Runner> runner_;
  bool is_served_ = false;
  bool is_away_ = false;  // the runner has died, and no other has taken over yet
  StartUpResult result_;
  Status status_ = Ok();
  bool done_ = false;
};

}  // namespace ppc::sim

#endif  // PPC_BENCH_SIM_START_UP_H_
