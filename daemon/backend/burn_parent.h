// SPDX-License-Identifier: Apache-2.0
// Owns the place where the burn groups of one payer stand, and what the kernel does to groups:
// make, evict, remove.
//
// v1: in the payer's cgroup, whose limit counts them.  v2: in a directory of ours, which goes with
// its last group (Cgroup::load_place).  Where the payer's limit does not count that directory its
// memory.high follows what the limit leaves: at memory.max a loader would be killed.
// Threads: any.
#ifndef PPC_DAEMON_BACKEND_BURN_PARENT_H_
#define PPC_DAEMON_BACKEND_BURN_PARENT_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "daemon/base/result.h"
#include "daemon/base/unique_fd.h"
#include "daemon/machine/cgroup.h"

namespace ppc {

class BurnParent {
 public:
  // Removes what runners that are gone have left there.
  static Result<std::unique_ptr<BurnParent>> Open(Cgroup payer);
  // A directory that the payer's limit does not count is emptied first, for a second at most.
  ~BurnParent();
  BurnParent(const BurnParent&) = delete;
  BurnParent& operator=(const BurnParent&) = delete;

  // Number `number` of this process.
  static std::string NameOf(uint64_t number);
  Result<UniqueFd> Make(const std::string& name) const;
  // False: something is still there.
  bool Remove(const std::string& name) const;
  // Evicts what is charged to the group, mapped or not.  What the kernel cannot evict stays.
  void Empty(int group) const;
  // Removes all groups of this process, when no loader is to be in them any more.  The kernel
  // charges pages that are left in a removed group to the directory around it.
  void RemoveOwn() const;

  // Makes the groups' limit what the payer leaves.  True: look again soon.
  bool UpdateLimit();

  const Cgroup& payer() const { return payer_; }

 private:
  enum class Owner { kThisProcess, kDeadProcess };
  explicit BurnParent(Cgroup payer) : payer_(std::move(payer)) {}
  Status MakePlace();
  void RemoveGroups(int directory, Owner owner) const;
  void RemoveOrphans(const std::string& directory) const;
  void Evict(int group, uint64_t charged, uint64_t bytes) const;

  const Cgroup payer_;
  UniqueFd directory_;
  bool can_reclaim_ = false;       // memory.reclaim, from 5.19 on
  std::atomic<uint64_t> high_{0};  // not written yet
};

}  // namespace ppc

#endif  // PPC_DAEMON_BACKEND_BURN_PARENT_H_
