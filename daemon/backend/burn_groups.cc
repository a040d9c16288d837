// SPDX-License-Identifier: Apache-2.0
#include "daemon/backend/burn_groups.h"

#include <algorithm>
#include <cerrno>
#include <iterator>

namespace ppc {

Result<std::unique_ptr<BurnGroups>> BurnGroups::Open(Cgroup payer,
                                                     const CgroupLoaderOptions& options) {
  Result<std::unique_ptr<BurnParent>> parent = BurnParent::Open(std::move(payer));
  if (!parent) return parent.error();
  std::unique_ptr<BurnGroups> groups(new BurnGroups(std::move(*parent)));
  for (std::unique_ptr<CgroupLoader>& loader : groups->loaders_) {
    Result<std::unique_ptr<CgroupLoader>> opened =
        CgroupLoader::Open(groups->parent_->payer().fd(), -1, options);
    if (!opened) return opened.error();
    loader = std::move(*opened);
  }
  Result<GroupPtr> first = groups->Begin(0);
  if (!first) return first.error();
  groups->current_ = std::move(*first);
  return groups;
}

BurnGroups::~BurnGroups() {
  // A process that was killed may stay in its group for a while.
  for (std::unique_ptr<CgroupLoader>& loader : loaders_) {
    if (loader != nullptr) (void)loader->MoveTo(parent_->payer().fd());
    loader.reset();
  }
  parent_->RemoveOwn();
}

// mutex_ is held, and no thread loads by this loader.
Result<BurnGroups::GroupPtr> BurnGroups::Begin(size_t loader) {
  auto group = std::make_shared<Group>();
  group->name = BurnParent::NameOf(++last_);
  group->loader = loader;
  if (const auto memory = parent_->payer().Read(1.0, /*with_cache=*/false))
    group->most = std::clamp(memory->limit / kMostGroups, kGroupBytes, kMostGroupBytes);
  Result<UniqueFd> made = parent_->Make(group->name);
  if (!made) return made.error();
  group->directory = std::move(*made);
  if (const int code = loaders_[loader]->MoveTo(group->directory.Get()); code != 0) {
    (void)parent_->Remove(group->name);
    return PosixError("load in a burn group", code);
  }
  std::erase_if(to_remove_, [this](const std::string& name) { return parent_->Remove(name); });
  (void)parent_->UpdateLimit();
  return group;
}

BurnGroups::GroupPtr BurnGroups::Enter(uint64_t bytes) {
  std::vector<GroupPtr> done;
  std::unique_lock lock(mutex_);
  left_.wait(lock, [this] { return !is_switching_; });
  if (current_->is_full || (current_->bytes != 0 && current_->bytes + bytes > current_->most)) {
    is_switching_ = true;
    const size_t next = 1 - current_->loader;
    left_.wait(lock, [this, next] { return loading_[next] == 0; });
    Result<GroupPtr> group = Begin(next);
    is_switching_ = false;
    left_.notify_all();
    if (!group) return nullptr;
    const bool was_full = std::exchange(current_->is_full, true);
    if (!was_full && current_->needed == 0 && current_->loading == 0) done.push_back(current_);
    current_ = std::move(*group);
  }
  GroupPtr group = current_;
  group->bytes += bytes;
  ++group->loading;
  ++loading_[group->loader];
  lock.unlock();
  Empty(done);
  return group;
}

void BurnGroups::Leave(const GroupPtr& group, uint64_t number, uint64_t asked,
                       const ppc_load* loaded) {
  std::vector<GroupPtr> done;
  {
    const std::lock_guard lock(mutex_);
    if (loaded != nullptr && loaded->loaded > 0) {
      const uint64_t end = loaded->offset + loaded->done;
      Forget(number, loaded->offset, end, /*is_released=*/false, &done);
      Cut(&unreported_, number, loaded->offset, end, [](const GroupPtr&, uint64_t, uint64_t) {});
      parts_[{number, loaded->offset}] = Part{end, group};
      group->needed += loaded->done;
    } else {
      group->bytes -= asked;
    }
    --group->loading;
    --loading_[group->loader];
    if (group->is_full && group->needed == 0 && group->loading == 0) done.push_back(group);
    left_.notify_all();
  }
  Empty(done);
}

int BurnGroups::LoadFile(int file, uint64_t number, ppc_load* load, int node) {
  const uint64_t asked = load->length;
  const GroupPtr group = Enter(asked);
  if (group == nullptr) return kNoGroup;
  const int code = loaders_[group->loader]->LoadFile(file, load, node);
  Leave(group, number, asked, code == 0 ? load : nullptr);
  return code == EBUSY ? kNoGroup : code;  // the group takes no process
}

// Takes the range out of the parts.
template <typename Each>
void BurnGroups::Cut(Parts* parts, uint64_t number, uint64_t offset, uint64_t end, Each each) {
  auto at = parts->lower_bound({number, offset});
  if (at != parts->begin()) {
    const auto before = std::prev(at);
    if (before->first.first == number && before->second.end > offset) at = before;
  }
  while (at != parts->end() && at->first.first == number && at->first.second < end) {
    const uint64_t from = at->first.second;
    const Part part = at->second;
    at = parts->erase(at);
    if (from < offset) (*parts)[{number, from}] = Part{offset, part.group};
    if (part.end > end) (*parts)[{number, end}] = Part{part.end, part.group};
    each(part.group, std::max(from, offset), std::min(part.end, end));
  }
}

// mutex_ is held.
void BurnGroups::Forget(uint64_t number, uint64_t offset, uint64_t end, bool is_released,
                        std::vector<GroupPtr>* done) {
  const auto leave = [&](const GroupPtr& group, uint64_t from, uint64_t to) {
    group->needed -= to - from;
    if (is_released) group->released.push_back({number, from, to});
    if (group->needed != 0 || group->loading != 0) return;
    // The current group is closed early only where half of it or more is freed so.
    if (!group->is_full && group->bytes < group->most / 2) return;
    group->is_full = true;
    done->push_back(group);
  };
  Cut(&parts_, number, offset, end, leave);
}

uint64_t BurnGroups::Release(uint64_t number, uint64_t offset, uint64_t length) {
  std::vector<GroupPtr> done;
  {
    const std::lock_guard lock(mutex_);
    Forget(number, offset, offset + length, /*is_released=*/true, &done);
  }
  Empty(done);
  uint64_t gone = 0;
  const std::lock_guard lock(mutex_);
  const auto count = [&gone](const GroupPtr&, uint64_t from, uint64_t to) { gone += to - from; };
  Cut(&unreported_, number, offset, offset + length, count);
  return gone;
}

// Without the lock: it takes 10 ms.
void BurnGroups::Empty(const std::vector<GroupPtr>& done) {
  for (const GroupPtr& group : done) {
    parent_->Empty(group->directory.Get());
    const std::lock_guard lock(mutex_);
    ++emptied_;
    for (const auto& [number, from, to] : group->released) {
      const auto ignore = [](const GroupPtr&, uint64_t, uint64_t) {};
      Cut(&unreported_, number, from, to, ignore);
      unreported_[{number, from}] = Part{to, nullptr};
    }
    if (group != current_ && !parent_->Remove(group->name)) to_remove_.push_back(group->name);
  }
}

uint64_t BurnGroups::Emptied() const {
  const std::lock_guard lock(mutex_);
  return emptied_;
}

}  // namespace ppc
