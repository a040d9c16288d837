// SPDX-License-Identifier: Apache-2.0
//
// Process -> group (paper, section 4.1): a process is the worker whose XPU it
// is bound to.  Workers keep their numbers between runs, whatever XPUs they get.
//
// Whose service a process is of, and which XPU it is bound to, is the runtime's
// to know (daemon/exec/readers.h); it comes with every event and is not kept
// here.  What is kept is which group's reads the process repeats, for which the
// XPU is only the first guess: its own reads correct it, and a process that
// takes over a group is told from a second one by what was read before.  The
// runtime has no template to tell any of that by.
#ifndef POLICIES_MAIO_BASE_WORKER_MAP_H_
#define POLICIES_MAIO_BASE_WORKER_MAP_H_

#include <array>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "policies/maio/base/config.h"
#include "policies/maio/base/names.h"

struct miss_io;

namespace ppc::maio {

class WorkerMap {
 public:
  WorkerMap(const ServiceSpec& spec, int32_t nr_xpus);
  ~WorkerMap() = default;
  WorkerMap(const WorkerMap&) = delete;
  WorkerMap& operator=(const WorkerMap&) = delete;

  // Group of the process of an event; weights: the event is on a model file.
  uint32_t Resolve(const miss_io& event, bool weights);
  // The group whose reads a recording takes those of a process for that was resolved to `group`.
  // Where XPUs are known, that of its XPU, whatever its reads say: with one worker on each the next
  // start knows by them where to load before anything is read.
  uint32_t RecordingGroup(const miss_io& event, uint32_t group) const;
  // Some process was bound to an XPU.
  bool has_xpu_binding() const { return has_xpu_binding_; }
  // XPU of a group in this run, -1 unknown.
  int32_t XpuOf(uint32_t group) const;
  // The processes of two groups change places (their reads say so).
  void Swap(uint32_t a, uint32_t b);
  // The process of an event is this worker (its reads say so).
  void Move(const miss_io& event, uint32_t group);
  // True once for a new process that takes over a group (a retried load), as soon as the one
  // before has been silent for long enough.
  bool ReplacedPrevious(const miss_io& event);
  // There may be such a process: nearly never.
  bool has_replacement() const { return replacements_ != 0; }
  size_t processes() const { return processes_.size(); }
  uint32_t processes_of(uint32_t group) const;

 private:
  using Key = std::pair<int32_t, uint64_t>;  // pid, start time: pids are reused
  struct KeyHash {
    size_t operator()(const Key& key) const {
      return static_cast<size_t>(key.first) * 0x9e3779b97f4a7c15ull ^ key.second;
    }
  };
  struct Process {
    uint32_t group = kCommonGroup;
    uint32_t slot = kCommonGroup;  // group before its reads said otherwise
    int32_t xpu = -1;
    uint64_t last_ns = 0;
    uint64_t since_ns = 0;
    bool may_replace = false;  // may turn out to replace another one
  };

  // Of processes that have just read; direct-mapped.
  struct Recent {
    Key key;
    Process* process = nullptr;
  };
  static constexpr size_t kRecent = 64;

  // nullptr: it has not been seen.
  Process* Known(const Key& key) {
    Recent& recent = recent_[static_cast<uint32_t>(key.first) % kRecent];
    const bool is_it = recent.process != nullptr && recent.key == key;
    return is_it ? recent.process : LookUp(key, &recent);
  }
  Process* LookUp(const Key& key, Recent* recent);
  uint32_t Assign(const miss_io& event, bool weights);
  void SetMayReplace(Process* process, bool may_replace);
  uint32_t Pick(const std::vector<uint32_t>& workers, uint64_t now_ns) const;

  std::vector<int32_t> xpus_;
  uint32_t workers_;
  bool has_xpus_;
  bool has_xpu_binding_ = false;
  std::unordered_map<Key, Process, KeyHash> processes_;  // none is ever taken out
  std::array<Recent, kRecent> recent_;
  size_t replacements_ = 0;               // processes that may replace another
  std::map<uint32_t, int32_t> seen_xpu_;  // group -> XPU of its process
  std::map<uint32_t, uint32_t> swapped_;
};

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_BASE_WORKER_MAP_H_
