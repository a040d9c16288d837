// SPDX-License-Identifier: Apache-2.0
// Owns what is known of the processes that read: the service and the XPU of each.
// Limits how many look-ups of each tenant wait for a process that hangs.
//
// A process that is not known yet is looked up in /proc by another thread, and on_answer says when
// there is an answer.  Its environment is read last, and only where it may decide: a process that
// hangs keeps it back, and a tenant of which many hang gets no further thread.  The service of a
// process stays; on which XPU it is may show later than its first file.
// Threads: the executor's.
#ifndef PPC_DAEMON_EXEC_READERS_H_
#define PPC_DAEMON_EXEC_READERS_H_

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "daemon/exec/attribution.h"
#include "daemon/exec/job_queue.h"

namespace ppc {

// Owns how many look-ups of each tenant wait for a process that hangs.  A process whose memory is
// locked keeps each reader of its environment waiting, and a tenant may have any number of such
// processes: it must not hold all threads that look processes up.
// Threads: any.
class HungReads {
 public:
  static constexpr size_t kMostOfTenant = 3;

  // One read, while it lives.
  class Read {
   public:
    Read(HungReads* all, const std::string& tenant) : all_(all), place_(all->Begin(tenant)) {}
    ~Read() { all_->End(place_); }
    Read(const Read&) = delete;
    Read& operator=(const Read&) = delete;
    // False: too many of the tenant's hang already.
    bool MayRead() const { return place_ != all_->running_.end(); }

   private:
    friend class HungReads;
    HungReads* const all_;
    const std::multimap<std::string, std::chrono::steady_clock::time_point>::iterator place_;
  };

 private:
  using Clock = std::chrono::steady_clock;
  using Running = std::multimap<std::string, Clock::time_point>;

  Running::iterator Begin(const std::string& tenant) {
    const Clock::time_point now = Clock::now();
    const std::lock_guard lock(mutex_);
    const auto [first, last] = running_.equal_range(tenant);
    size_t hung = 0;
    for (auto read = first; read != last; ++read)
      hung += now - read->second >= JobQueue::kStuck ? 1 : 0;
    return hung < kMostOfTenant ? running_.emplace(tenant, now) : running_.end();
  }
  void End(Running::iterator place) {
    const std::lock_guard lock(mutex_);
    if (place != running_.end()) running_.erase(place);
  }

  std::mutex mutex_;
  Running running_;
};

struct Reader {
  static constexpr int kStranger = -1;
  int service = kStranger;  // number
  XpuAnswer xpu;
};

class Readers {
 public:
  static constexpr int kNoService = -2;  // the number of none, and of no stranger

  explicit Readers(SysRoots roots) : roots_(std::move(roots)) {}

  // on_answer: a process is known now that was not.
  void Use(Offload offload, std::function<void()> on_answer);
  // Something about the services has changed: processes of told services that are there still are
  // looked up again, and belong there until then; of the others nothing is known any more.
  void SetMembers(std::shared_ptr<const Members> members);
  // nullptr: it is being looked up.  Without another thread always an answer.
  const Reader* Find(int pid, uint64_t start_ns, uint64_t cgroup_id, uint64_t now_ns);
  // Whether a process that was looked for may belong to the service, as far as is known already.
  bool MayBeOf(int pid, int service) const;

 private:
  // Told by the thread that looks a process up, before it waits for the process.
  struct Hints {
    std::atomic<bool> are_told{false};
    std::vector<int> services;  // numbers, once they are told
  };
  struct Entry {
    uint64_t start_ns = 0;
    uint64_t due_ns = 0;  // to be looked up (again) from then on
    bool is_known = false;
    bool is_asked = false;
    bool is_old = false;  // the services have changed since
    Reader reader;
    std::shared_ptr<const Hints> hints;  // of the look-up under way
  };
  struct Question {
    int pid = 0;
    uint64_t start_ns = 0;
    uint64_t cgroup_id = 0;
    uint64_t now_ns = 0;
    std::optional<int> service;  // is known: only the XPU is looked for
  };
  // nullopt: too many of its tenant's processes hang.
  std::optional<Reader> LookUp(const Members& members, const Question& question, Hints* hints);
  uint64_t DueAfter(const Reader& answer, uint64_t now_ns) const;
  void Ask(const Question& question);
  void Postpone(const Question& question);
  void Learn(const Question& question, const Reader& answer);

  static constexpr size_t kMaxProcesses = 4096;
  static constexpr uint64_t kLookAgainNs = 1000 * 1000 * 1000;

  // Processes that have just read; direct-mapped.
  struct Recent {
    int pid = 0;
    Entry* entry = nullptr;
  };
  Entry& EntryOf(int pid) {
    const Recent& recent = recent_[static_cast<unsigned>(pid) % kRecent];
    return recent.pid == pid && recent.entry != nullptr ? *recent.entry : LookUpEntry(pid);
  }
  Entry& LookUpEntry(int pid);
  void ForgetSome();

  static constexpr size_t kRecent = 64;
  const SysRoots roots_;
  Offload offload_;
  std::function<void()> on_answer_ = [] {};
  HungReads hung_;
  std::shared_ptr<const Members> members_ = std::make_shared<Members>();
  std::unordered_map<int, Entry> entries_;
  std::array<Recent, kRecent> recent_;
};

}  // namespace ppc

#endif  // PPC_DAEMON_EXEC_READERS_H_
