// SPDX-License-Identifier: Apache-2.0
// Owns one start-up: builds the machine, runs the service under the system, counts.
// Threads: one.
#ifndef PPC_SIM_START_UP_H_
#define PPC_SIM_START_UP_H_

#include <memory>
#include <string>
#include <vector>

#include "sim/experiment.h"
#include "sim/replay/event_log.h"
#include "sim/shared_store.h"
#include "sim/supervisor.h"

namespace ppc::sim {

// The result of another service.
struct OtherServiceResult {
  ServiceReport report;
  uint64_t zero_ns = 0;
  uint64_t model_bytes = 0;
  uint64_t needed = 0;
};

struct StartUpResult {
  ServiceReport report;
  uint64_t zero_ns = 0;
  CacheStats cache;
  DiskStats disk;
  uint64_t model_bytes = 0;
  double threshold_share = 0;  // largest share of the machine's threshold in use
  uint64_t unused = 0;         // read, never touched
  uint64_t needed = 0;         // of the service's model, touched by any process
  uint64_t demanded = 0;       // touched, but not brought in by the loader
  std::vector<OtherServiceResult> others;
  std::vector<uint64_t> read_by_first_ready;  // by service: read of its model by the first ready
  uint64_t at_zero = 0;  // resident when the clock or, earlier, the policy started
  Json status;
  std::vector<Sample> series;
  double store_wait_s = 0;  // time of the store's answers
  double again_s = 0;       // of the last load after ready
  // From exec to the end of the last pass.
  double life_s = 0;
  DiskStats life_disk;
  uint64_t failed_requests = 0;
  uint64_t errors = 0;         // pages that the service could not read
  std::vector<double> passes;  // seconds of each pass after the load
  HookTimes hooks;
  uint64_t again_bytes = 0;  // read from the disk for it
  // Bytes evicted after ready, from a failure of the system on.
  uint64_t restart_evicted = 0;
  uint64_t restart_read = 0;
};

// Directory and ID of another service of a scenario.
std::string OtherDirectory(const Scenario& scenario, size_t other);
std::string OtherId(const Scenario& scenario, size_t other);

// One start-up on a machine of its own; only the directory outlives it.
class StartUp {
 public:
  StartUp(const Scenario& scenario, uint64_t seed, const std::string& directory)
      : s_(scenario), seed_(seed), directory_(directory) {}

  // Gives up beyond these.
  void SetLimits(double s, uint64_t bytes) {
    max_ns_ = static_cast<uint64_t>(s * 1e9);
    max_bytes_ = bytes;
  }
  Result<StartUpResult> Run();

 private:
  Status Build();
  Result<uint64_t> AddFiles(PageCache* cache);
  uint64_t AddObjects(PageCache* cache);
  ServiceReport Serve(bool through_ppc);
  ServiceReport ServeObjects(bool through_ppc, const std::string& proc);
  void Main();
  uint32_t Mounts() const;
  uint32_t MountOf(size_t other) const;
  Status StartSupervisor();
  Status StartPolicy();
  void TellMemory();
  Status InjectFault();
  void InjectFaultAt(uint64_t disk_bytes);
  void InjectFaultAfterReady();
  Status StartService(uint32_t mount, const ServiceOptions& service);
  void SendReady(uint32_t mount, const std::string& id, Json* answer);
  void RunOther(size_t index);
  void Grow(uint64_t bytes);  // a neighbour's memory
  void RunNeighbour(const Neighbour& neighbour, uint32_t index);
  void ServePasses(const DiskStats& before);
  void SetBadDisk();
  void RunStranger(const Stranger& stranger, uint32_t index);
  void NoteFirstReady();
  const ModelFiles& ModelOf(size_t other) const;
  void ServeAgain();
  void ReadAllFiles(uint32_t processes);
  void Warm(double share);
  void ReplaceShard();
  void SamplePeriodically();
  void Count();
  std::vector<int8_t> PageNodes() const;
  ServiceOptions ServiceOf() const;
  ServiceOptions Complete(ServiceOptions service, const ModelFiles& model, uint32_t number,
                          const std::string& id, double consumer) const;

  const Scenario& s_;
  const uint64_t seed_;
  const std::string directory_;
  uint64_t max_ns_ = 3'600'000'000'000;
  uint64_t max_bytes_ = ~uint64_t{0};
  std::unique_ptr<Scheduler> scheduler_ = std::make_unique<Scheduler>();
  std::unique_ptr<Disk> disk_;
  std::unique_ptr<PageCache> cache_;
  std::unique_ptr<Kernel> kernel_;
  ModelFiles model_;
  std::vector<ModelFiles> other_models_;  // by other; empty if it is the main model
  size_t others_left_ = 0;
  std::vector<Fiber*> strangers_;
  EventLog log_;
  std::vector<int> xpu_nodes_;
  std::unique_ptr<SharedStore> store_;  // nullptr: no faults
  std::unique_ptr<Supervisor> supervisor_;
  std::unique_ptr<Service> service_;  // nullptr: a log is replayed
  bool is_served_ = false;
  bool is_away_ = false;  // the runner has failed, and none has taken over yet
  StartUpResult result_;
  Status status_ = Ok();
  bool done_ = false;
};

}  // namespace ppc::sim

#endif  // PPC_SIM_START_UP_H_
