// SPDX-License-Identifier: Apache-2.0
// Policies on the simulator's machine (sim/kernel.h): readers that touch pages of mapped files at
// the rate of a device, and a runtime loop that calls the policy's hooks as the runner does, with
// the context of FakeHost.  Steps of one millisecond; one thread.
#ifndef TESTS_POLICY_SIMULATOR_H_
#define TESTS_POLICY_SIMULATOR_H_

#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/policy/fake_host.h"
#include "tests/policy/machine.h"

namespace ppc::test {

struct Access {
  uint64_t file = 0;
  uint64_t offset = 0;
  uint64_t size = 0;
  uint32_t flags = 0;  // PPC_F_NOT_USER: populate; PPC_F_DIRECT: past the page cache; PPC_F_LOST
  uint64_t not_before_ms = 0;
};

// A thread of a process, whose mappings end with it.
struct Reader {
  int pid = 100;
  int xpu = -1;
  int service = 1;
  uint64_t bytes_per_ms = 0;
  uint64_t start_ms = 0;
  bool mapped = true;  // false: read()
  std::vector<Access> accesses;

  // Of the simulator.
  size_t at = 0;
  uint64_t done = 0;  // bytes of the current access
  uint64_t end_ms = 0;
  uint64_t stall_ms = 0;
  std::shared_ptr<ReaderTask> task;
  bool finished() const { return at >= accesses.size(); }
};

struct Options : MachineOptions {
  bool is_cgroup = true;  // the limit
};

constexpr uint64_t kPage = 4096;

class Simulator : public HostedPolicy {
 public:
  Simulator(const std::string& policy_path, const Options& options);
  ~Simulator() override;

  int Init() override;
  nlohmann::json Control(const nlohmann::json& message) override;
  std::vector<Reader> readers;
  // Runs until all readers are through or so many milliseconds have passed.
  bool Run(uint64_t max_ms);
  void RunFor(uint64_t ms);
  // Of a read that long ago, which was told late.
  void TellLate(const Reader& r, uint64_t file, uint64_t page, uint64_t age_ms);
  // The runner dies, and what it has under way; readers go on natively.
  void Crash();
  // A new one is there; its services are to be started again.
  int Recover();
  uint64_t ms() const { return step_; }
  // Memory of the service that is not page cache.
  void set_other(uint64_t bytes);
  void set_disk(uint64_t bytes_per_ms);

  // The machine counts these bytes.
  uint64_t disk_bytes = 0;                  // read from the disk
  uint64_t demand_bytes = 0;                // of these by readers themselves
  uint64_t reread_bytes = 0;                // pages read more than once
  uint64_t refault_bytes = 0;               // of these by readers, after the policy dropped them
  uint64_t reclaimed_bytes = 0;             // dropped by the kernel: the limit was hit
  uint64_t evicted_bytes = 0;               // dropped by the policy
  uint64_t peak = 0;                        // of cache and other
  std::set<uint32_t> load_flags;            // PPC_IO_*, that loads had
  std::map<uint32_t, uint64_t> evicted_of;  // service -> bytes
  std::map<int, uint64_t> node_bytes;       // loaded for the node of the XPU asked for; -1 none

  uint64_t resident() const;
  bool IsResident(uint64_t file, uint64_t offset) const;
  void DropAll();
  void Interrupted(uint32_t service, uint32_t group) override;
  void FindResident(uint64_t file, uint64_t offset, uint64_t size, uint8_t* bitmap, size_t bytes,
                    ppc_residency* out) override;

 private:
  struct Load {
    ppc_io io = {};
    uint64_t end = 0;
    uint64_t at = 0;  // submitted up to here
    bool is_begun = false;
    bool is_interrupted = false;
    bool has_ended = false;
    LoadResult result;
  };

  void AddFiles();
  void Attach();
  void Begin(Reader* r);
  void RunReader(ReaderTask* task);
  void Take(ReaderTask* task, const Reader& r, const Access& a, uint64_t bytes);
  miss_io EventOf(const Reader& r, uint32_t kind, uint64_t file, uint64_t offset, uint64_t bytes);
  void TakeEvents();
  void StepLoads();
  void RunLoad(Load* load);
  void StepRuntime();
  void HandleEvent(miss_io event);
  void Execute(prefetch_ios* list);
  void Execute(evict_ios* list);
  void EvictHook(miss_io* event);
  void PlanLoop();
  void UpdateMemory();

  Options options_;
  uint64_t step_ = 0;
  std::shared_ptr<Machine> machine_;
  std::map<uint64_t, sim::CacheFile*> cached_;  // by our number
  std::vector<uint64_t> numbers_;               // ours, by the machine's
  std::map<int, std::pair<int, int>> who_;      // pid -> XPU and service
  std::deque<miss_io> events_;
  std::list<std::shared_ptr<Load>> loads_;
  std::deque<ppc_result> results_;
  size_t plan_turn_ = 0;
  uint64_t starved_ms_ = 0;
  bool is_down_ = false;
  bool is_above_ = false;      // the policy is to be asked what to drop after the events
  bool is_next_lost_ = false;  // events before the next one
};

}  // namespace ppc::test

#endif  // TESTS_POLICY_SIMULATOR_H_
