// SPDX-License-Identifier: Apache-2.0
// Owns one directory's share of the observer's programs: what is listed and wanted there, and what
// the programs have counted and gathered for it.  The programs are ppcd's, or our own.
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
    bool opens = false;  // with O_DIRECT
    uint64_t beacon_bytes = 0;
  };

  // Loads programs of our own.  An error says in one line what is missing and what to do.
  static Result<std::unique_ptr<ObserverPrograms>> Load(const SysRoots& roots);
  // Uses those of ppcd, where `dir` is ours; forgets what an earlier runner left there.
  static Result<std::unique_ptr<ObserverPrograms>> Adopt(ObserverFds fds, uint32_t dir);
  ~ObserverPrograms();
  ObserverPrograms(const ObserverPrograms&) = delete;
  ObserverPrograms& operator=(const ObserverPrograms&) = delete;

  bool KnowsFaultKind() const { return about_.has_task_regs != 0; }
  // Can learn inodes from the kernel; else only numbers of stat() are known.
  bool CanLearn() const { return about_.can_learn != 0; }
  bool CanTellExecs() const { return about_.can_tell_execs != 0; }
  bool CanTellDirect() const { return about_.can_tell_direct != 0; }
  // What is mapped by huge pages is seen, or this kernel maps no files by them.
  bool SeesHugePages() const { return about_.sees_pmds != 0; }

  // The directory's number in the maps.
  uint32_t Directory() const { return dir_; }
  // Descriptor of the ring.
  int RingFd() const { return Fd(kObsFdRing); }
  // Attaches as needed.  An attached program costs every reader of the machine.
  Status Watch(const Wants& wants);
  void Unwatch();

  // Where the directory is; before anything is listed.
  void SetRoot(const std::string& path, dev_t dev, ino_t ino);
  // Reports insertions into unlisted files as those into listed ones.
  void WantUnlisted();
  // The kernel tells of each exec of an added executable while the directory is watched.
  void WantExecs(bool on);
  // False: no more fit.
  bool AddExecutable(uint64_t ino, uint32_t dev);
  void RemoveExecutable(uint64_t ino, uint32_t dev);
  // Directories that lie deeper than this one, maybe below it; as of a second ago.
  struct Root {
    dev_t dev = 0;
    ino_t ino = 0;
    bool operator==(const Root&) const = default;
  };
  std::vector<Root> DeeperRoots();

  // EEXIST: a deeper directory has listed it.  ENOSPC: no more can be listed.
  Status AddInode(const obs_inode_key& key, const obs_inode& inode);
  // The generation of the inode as it is listed for this directory.
  std::optional<uint32_t> GenerationOf(const obs_inode_key& key) const;
  // Unless it is another directory's.
  void RemoveInode(const obs_inode_key& key);
  Status AddDevice(uint32_t dev);
  void RemoveDevice(uint32_t dev);
  // Accesses of this process are ours; number as the kernel's first namespace has it.
  void AddOwn(pid_t tgid);
  void RemoveOwn(pid_t tgid);

  // Accesses gathered and not told yet.
  void EachGathered(const std::function<void(const obs_reader_key&, const obs_reader&)>& each);
  // Those that nothing was added to for `older_ns`: takes them out.
  void TakeGathered(uint64_t now_ns, uint64_t older_ns,
                    const std::function<void(const obs_reader_key&, const obs_reader&)>& each);
  obs_counts Counts() const;
  // Runs of the programs that the kernel left out, of all directories, as of a moment ago.
  uint64_t Skipped() const;
  // What the kernel says of our own mappings.
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
  Status Tell(obs_dir config);

  const std::unique_ptr<ObserverProgramSet> own_;  // null: ppcd has it
  const ObserverFds fds_;
  const uint32_t dir_;
  obs_state about_{};
  std::mutex mutex_;                      // one look at mappings, one change of wants at a time
  obs_dir told_{};                        // the last time
  uint64_t made_before_ = 0;              // readers remembered before our time
  uint64_t taken_ = 0;                    // readers that we took out; of the thread that does
  std::atomic<uint64_t> pushed_out_ = 0;  // readers that others' took the place of
  std::mutex roots_mutex_;
  std::vector<Root> deeper_;
  uint64_t deeper_ns_ = 0;  // when they were looked at
};

// Forgets what is listed for `dir`; takes as long as reading all that is listed, some 100 ns each.
void ClearObserverDirectory(const ObserverFds& fds, uint32_t dir);

}  // namespace ppc

#endif  // PPC_DAEMON_BACKEND_OBSERVER_PROGRAMS_H_
