// SPDX-License-Identifier: Apache-2.0
#include "daemon/backend/burn_groups.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "daemon/base/dir_stream.h"

namespace ppc {
namespace {

constexpr const char* kPrefix = "ppc-burn-";
constexpr const char* kEmpty = "memory.force_empty";

}  // namespace

Result<std::unique_ptr<BurnGroups>> BurnGroups::Open(int cgroup_fd,
                                                     const CgroupLoaderOptions& options) {
  UniqueFd parent(fcntl(cgroup_fd, F_DUPFD_CLOEXEC, 0));
  if (!parent.IsValid()) return PosixError("duplicate a descriptor", errno);
  if (faccessat(parent.Get(), kEmpty, W_OK, 0) != 0) return PosixError(kEmpty, errno);
  std::unique_ptr<BurnGroups> groups(new BurnGroups(std::move(parent)));
  groups->RemoveOld();
  for (std::unique_ptr<CgroupLoader>& loader : groups->loaders_) {
    Result<std::unique_ptr<CgroupLoader>> opened = CgroupLoader::Open(cgroup_fd, -1, options);
    if (!opened) return opened.error();
    loader = std::move(*opened);
  }
  int code = 0;
  groups->present_ = groups->Begin(0, &code);
  if (groups->present_ == nullptr) return PosixError("make a burn group", code);
  return groups;
}

BurnGroups::BurnGroups(UniqueFd parent)
    : parent_(std::move(parent)), prefix_(kPrefix + std::to_string(getpid()) + "-") {}

BurnGroups::~BurnGroups() {
  // A process that was killed may stay in its group for a while.
  for (std::unique_ptr<CgroupLoader>& loader : loaders_) {
    if (loader != nullptr) (void)loader->MoveTo(parent_.Get());
    loader.reset();
  }
  // The kernel charges the pages that are left in a removed group to the payer's own.
  RemoveOld();
}

// Removes our own groups and those of runners that are gone.
void BurnGroups::RemoveOld() {
  const int again = openat(parent_.Get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const DirStream directory(again < 0 ? nullptr : fdopendir(again));
  if (directory == nullptr) return;
  std::vector<std::string> old;
  while (const dirent* const entry = readdir(directory.get())) {
    const std::string name = entry->d_name;
    if (!name.starts_with(kPrefix)) continue;
    const pid_t owner = std::atoi(name.c_str() + std::strlen(kPrefix));
    if (name.starts_with(prefix_) || kill(owner, 0) != 0) old.push_back(name);
  }
  for (const std::string& name : old) (void)Remove(name);
}

bool BurnGroups::Remove(const std::string& name) const {
  constexpr int kTries = 20;
  for (int i = 0; i < kTries; ++i) {
    if (unlinkat(parent_.Get(), name.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT) return true;
    if (errno != EBUSY || loaders_[0] != nullptr) return false;
    usleep(5000);  // a process that was killed is on its way
  }
  return false;
}

// mutex_ is held, and no thread loads by this loader.
BurnGroups::StretchPtr BurnGroups::Begin(size_t loader, int* code) {
  auto stretch = std::make_shared<Stretch>();
  stretch->name = prefix_ + std::to_string(++last_);
  stretch->loader = loader;
  if (mkdirat(parent_.Get(), stretch->name.c_str(), 0755) != 0) {
    *code = errno;
    return nullptr;
  }
  stretch->directory.Reset(
      openat(parent_.Get(), stretch->name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  *code = stretch->directory.IsValid() ? loaders_[loader]->MoveTo(stretch->directory.Get()) : errno;
  if (*code != 0) {
    (void)unlinkat(parent_.Get(), stretch->name.c_str(), AT_REMOVEDIR);
    return nullptr;
  }
  std::erase_if(to_remove_, [this](const std::string& name) { return Remove(name); });
  return stretch;
}

BurnGroups::StretchPtr BurnGroups::Enter(uint64_t bytes) {
  std::vector<StretchPtr> done;
  std::unique_lock lock(mutex_);
  left_.wait(lock, [this] { return !is_turning_; });
  if (present_->is_full || (present_->bytes != 0 && present_->bytes + bytes > kStretch)) {
    is_turning_ = true;
    const size_t next = 1 - present_->loader;
    left_.wait(lock, [this, next] { return loading_[next] == 0; });
    int code = 0;
    StretchPtr stretch = Begin(next, &code);
    is_turning_ = false;
    left_.notify_all();
    if (stretch == nullptr) return nullptr;
    const bool was_full = std::exchange(present_->is_full, true);
    if (!was_full && present_->needed == 0 && present_->loading == 0) done.push_back(present_);
    present_ = std::move(stretch);
  }
  StretchPtr stretch = present_;
  stretch->bytes += bytes;
  ++stretch->loading;
  ++loading_[stretch->loader];
  lock.unlock();
  Empty(done);
  return stretch;
}

void BurnGroups::Leave(const StretchPtr& stretch, uint64_t number, const ppc_load* loaded) {
  std::vector<StretchPtr> done;
  {
    const std::lock_guard lock(mutex_);
    if (loaded != nullptr && loaded->loaded > 0) {
      const uint64_t end = loaded->offset + loaded->done;
      Forget(number, loaded->offset, end, /*is_released=*/false, &done);
      Cut(&untold_, number, loaded->offset, end, [](const StretchPtr&, uint64_t, uint64_t) {});
      parts_[{number, loaded->offset}] = Part{end, stretch};
      stretch->needed += loaded->done;
    }
    --stretch->loading;
    --loading_[stretch->loader];
    if (stretch->is_full && stretch->needed == 0 && stretch->loading == 0) done.push_back(stretch);
    left_.notify_all();
  }
  Empty(done);
}

int BurnGroups::LoadFile(int file, uint64_t number, ppc_load* load, int node) {
  const StretchPtr stretch = Enter(load->length);
  if (stretch == nullptr) return kNoGroup;
  const int code = loaders_[stretch->loader]->LoadFile(file, load, node);
  Leave(stretch, number, code == 0 ? load : nullptr);
  return code;
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
    if (!stretch->is_full && stretch->bytes < kStretch / 2) return;
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
    const UniqueFd file(openat(stretch->directory.Get(), kEmpty, O_WRONLY | O_CLOEXEC));
    if (file.IsValid()) (void)!write(file.Get(), "0", 1);
    const std::lock_guard lock(mutex_);
    ++emptied_;
    for (const auto& [number, from, to] : stretch->released) {
      const auto again = [](const StretchPtr&, uint64_t, uint64_t) {};
      Cut(&untold_, number, from, to, again);
      untold_[{number, from}] = Part{to, nullptr};
    }
    if (stretch != present_ && !Remove(stretch->name)) to_remove_.push_back(stretch->name);
  }
}

uint64_t BurnGroups::Emptied() const {
  const std::lock_guard lock(mutex_);
  return emptied_;
}

}  // namespace ppc
