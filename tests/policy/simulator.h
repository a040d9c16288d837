// SPDX-License-Identifier: Apache-2.0
// A small deterministic machine for policies: a disk of so many bytes per
// second, a page cache with a limit, readers that touch pages of mapped files
// at the rate of a device, and a runtime loop that calls the policy's hooks as
// the runner does.  Steps of one millisecond.
#ifndef TESTS_POLICY_SIMULATOR_H_
#define TESTS_POLICY_SIMULATOR_H_

#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/policy/fake_host.h"

namespace ppc::test {

struct Access {
  uint64_t file = 0;
  uint64_t offset = 0;
  uint64_t size = 0;
  uint32_t flags = 0;  // PPC_F_NOT_USER: populate; PPC_F_DIRECT: past the page cache
  uint64_t not_before_ms = 0;
};

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
  uint64_t credit = 0;
  bool waiting = false;
  uint64_t end_ms = 0;
  uint64_t stall_ms = 0;
  std::map<uint64_t, uint64_t> beacon;  // file -> page of the last PROGRESS
  bool finished() const { return at >= accesses.size(); }
};

struct Options {
  uint64_t disk_bytes_per_ms = 200 << 10;
  uint64_t demand_latency_ms = 4;
  uint64_t limit = 0;  // of page cache and `other` together; 0 = 64 GiB
  uint64_t other = 0;
  bool is_cgroup = true;  // the limit
  uint32_t loaders = 4;
  bool starved_evict = true;
};

constexpr uint64_t kPage = 4096;

class Simulator : public HostedPolicy {
 public:
  Simulator(const std::string& policy_path, const Options& options);
  ~Simulator() override { Exit(); }

  int Init() override;
  nlohmann::json Control(const nlohmann::json& message) override;
  std::vector<Reader> readers;
  // Runs until all readers are through or so many milliseconds have passed.
  bool Run(uint64_t max_ms);
  void RunFor(uint64_t ms);
  // Of a read that long ago, which was told late.
  void TellLate(const Reader& r, uint64_t file, uint64_t page, uint64_t age_ms) {
    Emit(r, PPC_PROGRESS, file, page, 1, 0);
    events_.back().time_ns -= age_ms * 1'000'000;
  }
  // The runner dies, and what it has under way; readers go on natively.
  void Crash();
  // A new one is there; its services are to be started again.
  int Recover();
  uint64_t ms() const { return step_; }
  // Memory of the service that is not page cache.
  void set_other(uint64_t bytes) { options_.other = bytes; }
  void set_disk(uint64_t bytes_per_ms) { options_.disk_bytes_per_ms = bytes_per_ms; }

  uint64_t disk_bytes = 0;        // read from the disk
  uint64_t demand_bytes = 0;      // of these by readers themselves
  uint64_t reread_bytes = 0;      // pages read more than once
  uint64_t refault_bytes = 0;     // read again after the policy dropped them
  uint64_t reclaimed_bytes = 0;   // dropped by the kernel: the limit was hit
  std::set<uint32_t> load_flags;  // PPC_IO_*, that loads had
  uint64_t evicted_bytes = 0;
  std::map<uint32_t, uint64_t> evicted_of;  // service -> bytes
  uint64_t peak = 0;                        // of cache and other
  uint64_t events_sent = 0;
  std::map<int, uint64_t> node_bytes;  // loaded for the node of the XPU asked for; -1 none

  uint64_t resident() const { return resident_pages_ * 4096; }
  bool IsResident(uint64_t file, uint64_t offset) const;
  void DropAll();
  void Interrupted(uint32_t service, uint32_t group) override;
  void FindResident(uint64_t file, uint64_t offset, uint64_t size, uint8_t* bitmap, size_t bytes,
                    ppc_residency* out) override;

 private:
  struct Load {
    ppc_io io = {};
    uint64_t at = 0;
    uint64_t ok = 0;
    uint64_t resident = 0;
  };
  struct Demand {
    uint64_t file = 0;
    uint64_t page = 0;
    uint64_t end = 0;
    uint64_t ready_ms = 0;
  };
  enum PageBit : uint8_t { kResident = 1, kMapped = 2, kLoadedOnce = 4, kDropped = 8 };
  struct Pages {
    std::vector<uint8_t> state;  // bit 0 resident, bit 1 mapped, bit 2 loaded once, bit 3 dropped
  };

  void StepReader(Reader* r);
  bool Touch(Reader* r, const Access& a, uint64_t page);
  void Emit(const Reader& r, uint32_t kind, uint64_t file, uint64_t page, uint64_t pages,
            uint32_t flags);
  void StepDisk();
  bool LoadPage(uint64_t file, uint64_t page);
  bool StepLoad(Load* load, uint64_t* budget);
  void StepRuntime();
  void HandleEvent(miss_io event);
  void Execute(prefetch_ios* list);
  void Execute(evict_ios* list);
  void EvictHook(miss_io* event);
  void PlanLoop();
  void UpdateMemory();
  void Reclaim();
  void Report(const Load& load, bool interrupted);

  Options options_;
  uint64_t step_ = 0;
  uint64_t start_ns_;
  std::map<uint64_t, Pages> pages_;
  uint64_t resident_pages_ = 0;
  std::deque<std::pair<uint64_t, uint64_t>> lru_;
  std::deque<miss_io> events_;
  std::list<Load> loads_;
  std::list<Demand> demands_;
  std::deque<ppc_result> results_;
  uint64_t disk_credit_ = 0;
  size_t plan_turn_ = 0;
  uint64_t starved_ms_ = 0;
  bool is_down_ = false;
  bool is_above_ = false;  // the policy is to be asked what to drop after the events
};

}  // namespace ppc::test

#endif  // TESTS_POLICY_SIMULATOR_H_
