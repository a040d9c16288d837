// SPDX-License-Identifier: Apache-2.0
// Owns one directory's share of the observer's programs: its listed inodes and wants, and the
// counters and pending accesses that the programs keep for it.  The programs are ppcd's, or our
// own.
// Threads: any.
#ifndef PPC_DAEMON_BACKEND_OBSERVER_PROGRAMS_H_
#define PPC_DAEMON_BACKEND_OBSERVER_PROGRAMS_H_

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "daemon/backend/observer/observer_abi.h"
#include "daemon/backend/observer/program_set.h"
#include "daemon/base/result.h"
#include "daemon/machine/roots.h"

namespace ppc {

class ObserverPrograms {
 public:
  struct Wants {
    bool progress = false;
    bool trace = false;
    bool opens = false;  // O_DIRECT opens
    uint64_t beacon_bytes = 0;
  };

  // Loads programs of our own.  An error is one line with the problem and its remedy.
  static Result<std::unique_ptr<ObserverPrograms>> Load(const SysRoots& roots);
  // Uses ppcd's programs, in which `dir` is ours; removes entries of an earlier runner.
  static Result<std::unique_ptr<ObserverPrograms>> Adopt(ObserverFds fds, uint32_t dir);
  ~ObserverPrograms();
  ObserverPrograms(const ObserverPrograms&) = delete;
  ObserverPrograms& operator=(const ObserverPrograms&) = delete;

  bool KnowsFaultKind() const { return about_.has_task_regs != 0; }
  // Whether inodes can be learnt from the kernel; else only stat()'s numbers are known.
  bool CanLearn() const { return about_.can_learn != 0; }
  bool CanReportExecs() const { return about_.can_report_execs != 0; }
  bool CanReportDirect() const { return about_.can_report_direct != 0; }
  // Whether huge-page mappings are seen, or this kernel makes none for files.
  bool SeesHugePages() const { return about_.sees_pmds != 0; }

  // The directory's number in the maps.
  uint32_t Directory() const { return dir_; }
  // Descriptor of the ring.
  int RingFd() const { return Fd(kObsFdRing); }
  // Attaches programs as needed.  An attached program costs every reader of the machine time.
  Status Watch(const Wants& wants);
  void Unwatch();

  // Sets the directory's place; before anything is listed.
  void SetRoot(const std::string& path, dev_t dev, ino_t ino);
  // Asks for reports of insertions into unlisted files, as for listed ones.
  void WantUnlisted();
  // Asks for reports of execs of added executables while the directory is watched.
  void WantExecs(bool on);
  // False: no more fit.
  bool AddExecutable(uint64_t ino, uint32_t dev);
  void RemoveExecutable(uint64_t ino, uint32_t dev);
  // Registered directories deeper than this one, perhaps below it; up to a second old.
  struct Root {
    dev_t dev = 0;
    ino_t ino = 0;
    bool operator==(const Root&) const = default;
  };
  std::vector<Root> DeeperRoots();

  // EEXIST: a deeper directory has listed it.  ENOSPC: the list is full.
  Status AddInode(const obs_inode_key& key, const obs_inode& inode);
  // The generation of the inode as it is listed for this directory.
  std::optional<uint32_t> GenerationOf(const obs_inode_key& key) const;
  // Does nothing if the inode is listed for another directory.
  void RemoveInode(const obs_inode_key& key);
  Status AddDevice(uint32_t dev);
  void RemoveDevice(uint32_t dev);
  // Excludes our own process; number in the initial pid namespace.
  void AddOwn(pid_t tgid);
  void RemoveOwn(pid_t tgid);

  // Visits pending accesses.
  void EachGathered(const std::function<void(const obs_reader_key&, const obs_reader&)>& each);
  // Takes out pending accesses that have not grown for `older_ns`.
  void TakeGathered(uint64_t now_ns, uint64_t older_ns,
                    const std::function<void(const obs_reader_key&, const obs_reader&)>& each);
  obs_counts Counts() const;
  // Program runs that the kernel skipped, for all directories; slightly old.
  uint64_t Skipped() const;
  // The page cache's inodes of our own mappings.
  Result<std::vector<obs_vma>> OwnMappings();

 private:
  ObserverPrograms(std::unique_ptr<ObserverProgramSet> own, ObserverFds fds, uint32_t dir);
  Status Start();
  void ForgetReport(const obs_inode_key& key);
  bool IsDeepers(const obs_inode_key& key) const;
  int Fd(ObserverFd which) const { return fds_[which].Get(); }
  obs_state State() const;
  obs_counts Counted() const;
  void EachReader(
      const std::function<void(const obs_reader_key&, const obs_reader&, bool is_whole)>& each);
  Status SetConfig(obs_dir config);

  const std::unique_ptr<ObserverProgramSet> own_;  // null: ppcd's programs are used
  const ObserverFds fds_;
  const uint32_t dir_;
  obs_state about_{};
  std::mutex mutex_;                      // serializes looks at mappings and changes of wants
  obs_dir config_{};                      // last sent
  uint64_t made_before_ = 0;              // readers tracked before this runner's time
  uint64_t taken_ = 0;                    // readers taken out; used by one thread
  std::atomic<uint64_t> pushed_out_ = 0;  // readers replaced by other directories'
  std::mutex roots_mutex_;
  std::vector<Root> deeper_;
  uint64_t deeper_ns_ = 0;  // when they were read
};

// Removes the listed inodes of `dir`; reads the whole list, some 100 ns per inode.
void ClearObserverDirectory(const ObserverFds& fds, uint32_t dir);

}  // namespace ppc

#endif  // PPC_DAEMON_BACKEND_OBSERVER_PROGRAMS_H_
