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
  Result<StretchPtr> first = groups->Begin(0);
  if (!first) return first.error();
  groups->present_ = std::move(*first);
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
Result<BurnGroups::StretchPtr> BurnGroups::Begin(size_t loader) {
  auto stretch = std::make_shared<Stretch>();
  stretch->name = BurnParent::NameOf(++last_);
  stretch->loader = loader;
  if (const auto memory = parent_->payer().Read(1.0, /*with_cache=*/false))
    stretch->most = std::clamp(memory->limit / kMostGroups, kStretch, kMostStretch);
  Result<UniqueFd> made = parent_->Make(stretch->name);
  if (!made) return made.error();
  stretch->directory = std::move(*made);
  if (const int code = loaders_[loader]->MoveTo(stretch->directory.Get()); code != 0) {
    (void)parent_->Remove(stretch->name);
    return PosixError("load in a burn group", code);
  }
  std::erase_if(to_remove_, [this](const std::string& name) { return parent_->Remove(name); });
  (void)parent_->Follow();
  return stretch;
}

BurnGroups::StretchPtr BurnGroups::Enter(uint64_t bytes) {
  std::vector<StretchPtr> done;
  std::unique_lock lock(mutex_);
  left_.wait(lock, [this] { return !is_turning_; });
  if (present_->is_full || (present_->bytes != 0 && present_->bytes + bytes > present_->most)) {
    is_turning_ = true;
    const size_t next = 1 - present_->loader;
    left_.wait(lock, [this, next] { return loading_[next] == 0; });
    Result<StretchPtr> stretch = Begin(next);
    is_turning_ = false;
    left_.notify_all();
    if (!stretch) return nullptr;
    const bool was_full = std::exchange(present_->is_full, true);
    if (!was_full && present_->needed == 0 && present_->loading == 0) done.push_back(present_);
    present_ = std::move(*stretch);
  }
  StretchPtr stretch = present_;
  stretch->bytes += bytes;
  ++stretch->loading;
  ++loading_[stretch->loader];
  lock.unlock();
  Empty(done);
  return stretch;
}

void BurnGroups::Leave(const StretchPtr& stretch, uint64_t number, uint64_t asked,
                       const ppc_load* loaded) {
  std::vector<StretchPtr> done;
  {
    const std::lock_guard lock(mutex_);
    if (loaded != nullptr && loaded->loaded > 0) {
      const uint64_t end = loaded->offset + loaded->done;
      Forget(number, loaded->offset, end, /*is_released=*/false, &done);
      Cut(&untold_, number, loaded->offset, end, [](const StretchPtr&, uint64_t, uint64_t) {});
      parts_[{number, loaded->offset}] = Part{end, stretch};
      stretch->needed += loaded->done;
    } else {
      stretch->bytes -= asked;
    }
    --stretch->loading;
    --loading_[stretch->loader];
    if (stretch->is_full && stretch->needed == 0 && stretch->loading == 0) done.push_back(stretch);
    left_.notify_all();
  }
  Empty(done);
}

int BurnGroups::LoadFile(int file, uint64_t number, ppc_load* load, int node) {
  const uint64_t asked = load->length;
  const StretchPtr stretch = Enter(asked);
  if (stretch == nullptr) return kNoGroup;
  const int code = loaders_[stretch->loader]->LoadFile(file, load, node);
  Leave(stretch, number, asked, code == 0 ? load : nullptr);
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
    if (from < offset) (*parts)[{number, from}] = Part{offset, part.stretch};
    if (part.end > end) (*parts)[{number, end}] = Part{part.end, part.stretch};
    each(part.stretch, std::max(from, offset), std::min(part.end, end));
  }
}

// mutex_ is held.
void BurnGroups::Forget(uint64_t number, uint64_t offset, uint64_t end, bool is_released,
                        std::vector<StretchPtr>* done) {
  const auto leave = [&](const StretchPtr& stretch, uint64_t from, uint64_t to) {
    stretch->needed -= to - from;
    if (is_released) stretch->released.push_back({number, from, to});
    if (stretch->needed != 0 || stretch->loading != 0) return;
    // The present stretch is closed early only where half of it or more is freed so.
    if (!stretch->is_full && stretch->bytes < stretch->most / 2) return;
    stretch->is_full = true;
    done->push_back(stretch);
  };
  Cut(&parts_, number, offset, end, leave);
}

uint64_t BurnGroups::Release(uint64_t number, uint64_t offset, uint64_t length) {
  std::vector<StretchPtr> done;
  {
    const std::lock_guard lock(mutex_);
    Forget(number, offset, offset + length, /*is_released=*/true, &done);
  }
  Empty(done);
  uint64_t gone = 0;
  const std::lock_guard lock(mutex_);
  const auto tell = [&gone](const StretchPtr&, uint64_t from, uint64_t to) { gone += to - from; };
  Cut(&untold_, number, offset, offset + length, tell);
  return gone;
}

// Without the lock: it takes 10 ms.
void BurnGroups::Empty(const std::vector<StretchPtr>& done) {
  for (const StretchPtr& stretch : done) {
    parent_->Empty(stretch->directory.Get());
    const std::lock_guard lock(mutex_);
    ++emptied_;
    for (const auto& [number, from, to] : stretch->released) {
      const auto again = [](const StretchPtr&, uint64_t, uint64_t) {};
      Cut(&untold_, number, from, to, again);
      untold_[{number, from}] = Part{to, nullptr};
    }
    if (stretch != present_ && !parent_->Remove(stretch->name)) to_remove_.push_back(stretch->name);
  }
}

uint64_t BurnGroups::Emptied() const {
  const std::lock_guard lock(mutex_);
  return emptied_;
}

}  // namespace ppc
