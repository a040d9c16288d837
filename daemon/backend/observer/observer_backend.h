// SPDX-License-Identifier: Apache-2.0
// Owns PPC on a stock kernel for one directory, without module or mount.  Events come from BPF
// programs on the page cache's tracepoints; loading and evicting use ordinary system calls on the
// files, within their limits (see evict_range.h, docs/backends.md).
// Owns the executables whose execs the programs report, too.
//
// Holds no descriptor below the directory while nothing is loaded.
// Threads: as in backend.h, and one of its own, see observer_thread.h.  The thread that drains
// events never waits for a file system.
#ifndef PPC_DAEMON_BACKEND_OBSERVER_OBSERVER_BACKEND_H_
#define PPC_DAEMON_BACKEND_OBSERVER_OBSERVER_BACKEND_H_

#include <deque>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "daemon/backend/backend.h"
#include "daemon/backend/observer/file_discovery.h"
#include "daemon/backend/observer/observer_files.h"
#include "daemon/backend/observer/observer_io.h"
#include "daemon/backend/observer/observer_thread.h"
#include "daemon/backend/observer/programs.h"
#include "daemon/backend/root_files.h"
#include "daemon/base/result.h"
#include "daemon/machine/roots.h"

struct ring_buffer;

namespace ppc {

class ObserverBackend : public Backend {
 public:
  // `dir` is canonical.  Without `programs` it loads its own.  An error is one line with the
  // problem and its remedy.
  static Result<std::unique_ptr<ObserverBackend>> Open(
      const std::string& dir, const SysRoots& roots,
      std::unique_ptr<ObserverPrograms> programs = nullptr, ObserverFiles::Limits limits = {});
  ~ObserverBackend() override;
  ObserverBackend(const ObserverBackend&) = delete;
  ObserverBackend& operator=(const ObserverBackend&) = delete;

  Capabilities Caps() const override;
  uint64_t NowNs() const override;
  Status Attach(const AttachOptions& options) override;
  void Detach() override;
  void RenewLease() override {}  // no lease: the kernel waits for no consumer
  size_t Drain(std::span<Event> batch) override;
  void KeepName(uint64_t file) override;
  void Gather() override;
  WaitOutcome Wait(uint64_t timeout_ns, bool nap, std::span<pollfd> others) override;
  Result<FileInfo> Resolve(uint64_t file, std::string* path) override;
  Result<FileInfo> Lookup(const std::string& path) override;
  std::optional<FileInfo> Peek(uint64_t file) const override;
  Result<LoadResult> Load(const LoadRequest& request) override { return io_->Load(request); }
  Result<EvictResult> Evict(const EvictRequest& request) override { return io_->Evict(request); }
  Result<Residency> Resident(uint64_t file, uint64_t offset, uint64_t length,
                             std::span<uint8_t> bitmap) override {
    return io_->Resident(file, offset, length, bitmap);
  }
  Result<uint64_t> SampleCache(uint64_t file, uint64_t offset, uint64_t length,
                               bool is_kept) override {
    return io_->SampleCache(file, offset, length, is_kept);
  }
  Result<uint32_t> Charge(int cgroup_fd) override { return io_->Charge(cgroup_fd); }
  void Uncharge(uint32_t handle) override { io_->Uncharge(handle); }
  // Native read-ahead is always on.
  Status SetFileNative(uint64_t, bool) override { return Ok(); }
  Result<size_t> Read(const std::string& path, uint64_t offset, std::span<uint8_t> buffer) override;
  Status List(const std::string& path, const DirEntry& entry) override;
  Result<BackendCounters> Counters() override;
  // Opens and maps the file, which blocks as long as its file system hangs.
  Result<Executable> ExecutableAt(const std::string& path) override;
  void WatchExecs(std::span<const Executable> files) override;
  void TakeExecs(std::vector<Exec>* out) override;

 private:
  struct RingDeleter {
    void operator()(ring_buffer* ring) const;
  };
  struct Filling {  // where Drain copies to
    std::span<Event> batch;
    size_t count = 0;
  };

  ObserverBackend(std::string dir, const SysRoots& roots, ObserverFiles::Limits limits);
  Status Start();
  static int OnRecord(void* self, void* data, size_t bytes);
  bool Take(const void* record, size_t bytes);
  // The discovery of a discovered file, else nullptr.
  FileDiscovery* DiscoveryOf(uint64_t file) const {
    return FileDiscovery::IsDiscovered(file) ? index_->discovery() : nullptr;
  }
  void TakeUnlisted(const obs_event& raw, const void* record, size_t bytes);
  void Put(const Event& event);
  void GatherOld();
  void QueueGathered(const obs_reader_key& key, const obs_reader& reader);
  ObserverThread::PeriodicResult RunPeriodic();

  static constexpr size_t kMaxExecs = 256;       // seen, not taken yet; more are dropped
  static constexpr size_t kMaxGathered = 65536;  // taken out of the maps, not drained yet

  const std::string dir_;
  const SysRoots roots_;
  const ObserverFiles::Limits limits_;
  const RootFiles names_;
  std::unique_ptr<ObserverPrograms> programs_;
  std::unique_ptr<ObserverFiles> index_;
  std::unique_ptr<ring_buffer, RingDeleter> ring_;
  std::unique_ptr<ObserverIo> io_;

  // Used by the executor only.
  Filling filling_;
  std::deque<Event> gathered_;
  std::set<Executable> watched_;  // their execs are reported
  std::vector<Exec> seen_execs_;
  bool has_lost_ = false;  // report a loss with the next event
  bool is_traced_ = false;
  uint64_t gathered_ns_ = 0;
  bool attached_ = false;

  std::unique_ptr<ObserverThread> thread_;  // destroyed first
};

}  // namespace ppc

#endif  // PPC_DAEMON_BACKEND_OBSERVER_OBSERVER_BACKEND_H_
