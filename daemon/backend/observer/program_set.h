// SPDX-License-Identifier: Apache-2.0
// Owns the observer's BPF programs and maps in the kernel: loads them, and attaches only the
// programs that some directory needs now, so that many directories cost the machine as much as one.
// Everything leaves the kernel with the last descriptor; nothing is pinned.
//
// ppcd has one set for all its runners; a runner without ppcd's set has its own.
// Threads: one at a time.
#ifndef PPC_DAEMON_BACKEND_OBSERVER_PROGRAM_SET_H_
#define PPC_DAEMON_BACKEND_OBSERVER_PROGRAM_SET_H_

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "daemon/backend/observer/observer_abi.h"
#include "daemon/base/result.h"
#include "daemon/base/unique_fd.h"
#include "daemon/machine/roots.h"

struct observer_bpf;
struct bpf_link;
struct bpf_program;

namespace ppc {

// Descriptors that a runner needs to use a set, in this order.
enum ObserverFd {
  kObsFdInodes,
  kObsFdReported,
  kObsFdDevices,
  kObsFdDirDevices,
  kObsFdDirs,
  kObsFdReaders,
  kObsFdRoots,
  kObsFdOwn,
  kObsFdCounts,
  kObsFdExecutables,
  kObsFdState,
  kObsFdIterator,  // the program that lists mappings; else the map of states
  kObsFdRing,      // of the directory
  kObsFdWake,      // eventfd: the directory's wants have changed
  kObsFdCount
};
using ObserverFds = std::array<UniqueFd, kObsFdCount>;

class ObserverProgramSet {
 public:
  // Loads the programs and attaches none.  An error is one line with the problem and its remedy.
  static Result<std::unique_ptr<ObserverProgramSet>> Load(const SysRoots& roots);
  ~ObserverProgramSet();
  ObserverProgramSet(const ObserverProgramSet&) = delete;
  ObserverProgramSet& operator=(const ObserverProgramSet&) = delete;

  // Adds a directory and returns its number in the maps.  Its ring is empty.
  Result<uint32_t> AddDirectory();
  // Removes its listed inodes, also those of a runner that died.
  void RemoveDirectory(uint32_t dir);
  // The directory's runner died: clears its wants.
  void ClearWants(uint32_t dir);
  bool IsEmpty() const;

  // Duplicates descriptors for the directory's runner.
  Result<ObserverFds> Share(uint32_t dir) const;
  // Readable when a runner's wants have changed; then call Update().
  int WakeFd() const { return wake_.Get(); }
  // Attaches and detaches by the wants of all directories; errors are also written to the map.
  Status Update();
  // Program runs that the kernel skipped; events of any directory may be missing.
  uint64_t Skipped() const;

 private:
  struct Ring {
    bool is_used = false;
    UniqueFd fd;
  };
  struct Wanted {
    bool inserts = false;
    bool accesses = false;
    bool execs = false;
    bool direct = false;
  };
  struct SkeletonDeleter {
    void operator()(observer_bpf* skeleton) const;
  };
  struct LinkDeleter {
    void operator()(bpf_link* link) const;
  };
  using Link = std::unique_ptr<bpf_link, LinkDeleter>;

  ObserverProgramSet() = default;
  Status Open(const SysRoots& roots);
  int LoadChosen(bool has_folios);
  void SizeByCpus();
  void Choose();
  void PublishState();
  Status AttachWanted(const Wanted& wanted);
  static void AttachBeside(bool on, std::vector<Link>* links, bpf_program* program,
                           uint32_t* can_report);
  static Status Attach(bool on, std::vector<Link>* links, std::span<bpf_program* const> programs);

  std::unique_ptr<observer_bpf, SkeletonDeleter> skeleton_;
  bool has_filemap_read_ = true;
  bool maps_folios_ = false;       // a fault maps more than its tracepoint says
  bool looks_for_folios_ = false;  // and no program may be attached to the mapping function
  bool maps_pmds_ = false;         // no tracepoint reports huge-page mappings
  bool has_direct_tracepoint_ = false;
  obs_state state_{};
  UniqueFd wake_;
  std::vector<Link> access_links_;
  std::vector<Link> insert_links_;
  std::vector<Link> exec_links_;
  std::vector<Link> direct_links_;
  std::array<Ring, kObsMaxDirs> rings_;
};

}  // namespace ppc

#endif  // PPC_DAEMON_BACKEND_OBSERVER_PROGRAM_SET_H_
