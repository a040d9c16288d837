// SPDX-License-Identifier: Apache-2.0
// Owns the observer's BPF programs and maps in the kernel: loads them, attaches what is needed now
// and nothing else, and is told which directories want what.  With the last descriptor everything
// is gone from the kernel; nothing is pinned.
// Threads: any.
#ifndef PPC_DAEMON_BACKEND_OBSERVER_PROGRAMS_H_
#define PPC_DAEMON_BACKEND_OBSERVER_PROGRAMS_H_

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "daemon/backend/observer/observer_abi.h"
#include "daemon/base/result.h"
#include "daemon/base/unique_fd.h"
#include "daemon/machine/roots.h"

struct observer_bpf;
struct bpf_link;
struct bpf_program;

namespace ppc {

class ObserverPrograms {
 public:
  struct Wants {
    bool progress = false;
    bool trace = false;
    uint64_t beacon_bytes = 0;
    bool operator==(const Wants&) const = default;
  };

  // Loads the programs; nothing is attached yet.  An error says in one line what is missing and
  // what to do.
  static Result<std::unique_ptr<ObserverPrograms>> Load(const SysRoots& roots);
  ~ObserverPrograms();
  ObserverPrograms(const ObserverPrograms&) = delete;
  ObserverPrograms& operator=(const ObserverPrograms&) = delete;

  // What this kernel gives: "tracepoints" (6.12 and later) or "fentry".
  const char* Means() const { return has_tracepoints_ ? "tracepoints" : "fentry"; }
  bool KnowsFaultKind() const { return has_task_regs_; }
  // Can learn inodes from the kernel; else only numbers of stat() are known.
  bool CanLearn() const { return can_learn_; }

  // A new directory: its number in the maps.  Its ring is empty.
  Result<uint32_t> AddDirectory();
  void RemoveDirectory(uint32_t dir);
  // Of the ring; valid until RemoveDirectory.
  int RingFd(uint32_t dir) const;
  // Attaches and detaches as needed.  An attached program costs every reader of the machine.
  Status Want(uint32_t dir, const Wants& wants);
  // Insertions are told, or nothing is.
  Status Watch(uint32_t dir, bool on);

  Status AddInode(const obs_inode_key& key, const obs_inode& inode);
  void RemoveInode(const obs_inode_key& key);
  Status AddDevice(uint32_t dev, uint32_t dir);
  void RemoveDevice(uint32_t dev);
  // Accesses of this process are ours; number as the kernel's first namespace has it.
  void AddOwn(pid_t tgid);
  void RemoveOwn(pid_t tgid);

  // Accesses gathered for a directory and not told for `older_ns`: takes them out.
  void TakeGathered(uint32_t dir, uint64_t now_ns, uint64_t older_ns,
                    const std::function<void(const obs_reader_key&, const obs_reader&)>& each);
  obs_counts Counts(uint32_t dir) const;
  // What the kernel says of our own mappings.
  Result<std::vector<obs_vma>> OwnMappings();

 private:
  struct DirState {
    bool used = false;
    bool watched = false;
    Wants wants;
    UniqueFd ring;
  };
  struct SkeletonDeleter {
    void operator()(observer_bpf* skeleton) const;
  };
  struct LinkDeleter {
    void operator()(bpf_link* link) const;
  };
  using Link = std::unique_ptr<bpf_link, LinkDeleter>;

  ObserverPrograms() = default;
  Status Open(const SysRoots& roots);
  void Choose();
  Status AttachAsNeeded();
  Status Attach(bool on, std::vector<Link>* links, std::span<bpf_program* const> programs);

  std::unique_ptr<observer_bpf, SkeletonDeleter> skeleton_;
  bool has_tracepoints_ = false;
  bool has_filemap_read_ = true;
  bool has_task_regs_ = false;
  bool can_learn_ = false;
  mutable std::mutex mutex_;
  std::vector<Link> access_links_;
  std::vector<Link> insert_links_;
  std::array<DirState, kObsMaxDirs> dirs_;
};

}  // namespace ppc

#endif  // PPC_DAEMON_BACKEND_OBSERVER_PROGRAMS_H_
