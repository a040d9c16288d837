// SPDX-License-Identifier: Apache-2.0
// Owns the burn groups of one payer: memory cgroups below or beside its own (BurnParent), each the
// charge of a part of what is loaded for it.  A page is charged to the group of the task that
// inserts it, and emptying that group evicts it even if it is mapped, which nothing else on a stock
// kernel does for a page that several processes map.
//
// Two loader processes take turns: while one finishes the loads of its group, the other begins
// to load into the next one.  Groups go when they are empty, at the end, and those of a runner that
// was killed when the next one comes to the same cgroup.
// Threads: any.
#ifndef PPC_DAEMON_BACKEND_BURN_GROUPS_H_
#define PPC_DAEMON_BACKEND_BURN_GROUPS_H_

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "daemon/backend/burn_parent.h"
#include "daemon/backend/cgroup_loader.h"
#include "daemon/base/result.h"
#include "daemon/base/unique_fd.h"
#include "daemon/machine/cgroup.h"

namespace ppc {

class BurnGroups {
 public:
  // A group takes 1/256 of the payer's tightest limit, within these bounds: large memories are not
  // cut into thousands of groups.
  static constexpr uint64_t kGroupBytes = 16 << 20;
  static constexpr uint64_t kMostGroupBytes = 256 << 20;
  static constexpr uint64_t kMostGroups = 256;

  // An error: no group can be made for it.
  static Result<std::unique_ptr<BurnGroups>> Open(Cgroup payer, const CgroupLoaderOptions& options);
  ~BurnGroups();
  BurnGroups(const BurnGroups&) = delete;
  BurnGroups& operator=(const BurnGroups&) = delete;

  // As CgroupLoader::LoadFile, into the current group.  `number`: the file's.
  // kNoGroup: none can be made.
  static constexpr int kNoGroup = -1;
  int LoadFile(int file, uint64_t number, ppc_load* load, int node);
  // Releases the range, and empties the groups of which nothing is needed any more.
  // Returns how many bytes of the range went so, now or since it was released before, each once.
  uint64_t Release(uint64_t number, uint64_t offset, uint64_t length);

  uint64_t Emptied() const;  // groups, so far
  bool UpdateLimit() { return parent_->UpdateLimit(); }

 private:
  struct Group {
    std::string name;
    UniqueFd directory;
    size_t loader = 0;
    int loading = 0;
    uint64_t most = kGroupBytes;
    uint64_t bytes = 0;   // loaded, or being loaded
    uint64_t needed = 0;  // of them
    bool is_full = false;
    std::vector<std::array<uint64_t, 3>> released;  // file, offset, end
  };
  using GroupPtr = std::shared_ptr<Group>;
  struct Part {
    uint64_t end = 0;
    GroupPtr group;
  };
  using Place = std::pair<uint64_t, uint64_t>;  // file, offset
  using Parts = std::map<Place, Part>;

  explicit BurnGroups(std::unique_ptr<BurnParent> parent) : parent_(std::move(parent)) {}
  GroupPtr Enter(uint64_t bytes);
  void Leave(const GroupPtr& group, uint64_t number, uint64_t asked, const ppc_load* loaded);
  Result<GroupPtr> Begin(size_t loader);
  template <typename Each>
  static void Cut(Parts* parts, uint64_t number, uint64_t offset, uint64_t end, Each each);
  void Forget(uint64_t number, uint64_t offset, uint64_t end, bool is_released,
              std::vector<GroupPtr>* done);
  void Empty(const std::vector<GroupPtr>& done);

  const std::unique_ptr<BurnParent> parent_;
  std::array<std::unique_ptr<CgroupLoader>, 2> loaders_;
  mutable std::mutex mutex_;
  std::condition_variable left_;
  GroupPtr current_;
  bool is_switching_ = false;
  std::array<int, 2> loading_{};  // by loader
  uint64_t last_ = 0;
  uint64_t emptied_ = 0;
  Parts parts_;
  Parts unreported_;  // of no group: evicted with one, and not reported by Release yet
  std::vector<std::string> to_remove_;  // empty, or nearly; a loader may still be there
};

}  // namespace ppc

#endif  // PPC_DAEMON_BACKEND_BURN_GROUPS_H_
