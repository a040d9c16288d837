// SPDX-License-Identifier: Apache-2.0
#include "daemon/backend/burn_parent.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "daemon/base/clock.h"
#include "daemon/base/files.h"
#include "daemon/base/text.h"

namespace ppc {
namespace {

constexpr const char* kPrefix = Cgroup::kBurnPrefix;
constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();

UniqueFd OpenDirectory(int at, const std::string& name) {
  return UniqueFd(openat(at, name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

// 0 or a positive errno.
int Write(int directory, const char* file, const std::string& text) {
  const UniqueFd fd(openat(directory, file, O_WRONLY | O_CLOEXEC));
  if (!fd.IsValid()) return errno;
  return write(fd.Get(), text.data(), text.size()) < 0 ? errno : 0;
}

uint64_t Charged(int directory) {
  const UniqueFd fd(openat(directory, "memory.current", O_RDONLY | O_CLOEXEC));
  char text[32];
  const ssize_t got = fd.IsValid() ? pread(fd.Get(), text, sizeof(text), 0) : -1;
  return got > 0 ? LeadingNumber<uint64_t>({text, static_cast<size_t>(got)}) : 0;
}

std::vector<std::string> GroupsIn(int directory) {
  std::vector<std::string> names = EntriesOf("/proc/self/fd/" + std::to_string(directory));
  std::erase_if(names, [](const std::string& name) { return !name.starts_with(kPrefix); });
  return names;
}

// Whether this process has not looked into the directory yet.  A look costs what there is, and what
// the process leaves there it removes itself.
bool IsFirstLookInto(const std::string& directory) {
  constexpr size_t kMostKnown = 1024;
  static std::mutex mutex;
  static std::set<std::string> known;
  const std::lock_guard lock(mutex);
  if (known.size() >= kMostKnown) known.clear();
  return known.insert(directory).second;
}

bool IsGone(pid_t pid) { return kill(pid, 0) != 0 && errno == ESRCH; }

}  // namespace

Result<std::unique_ptr<BurnParent>> BurnParent::Open(Cgroup payer) {
  std::unique_ptr<BurnParent> parent(new BurnParent(std::move(payer)));
  if (Status status = parent->MakePlace(); !status) return std::move(status).error();
  // The last runner that served it had the same groups.
  parent->RemoveGroups(parent->directory_.Get(), Owner::kDeadProcess);
  parent->RemoveGroups(parent->directory_.Get(), Owner::kThisProcess);
  (void)parent->UpdateLimit();
  return parent;
}

Status BurnParent::MakePlace() {
  const std::string& directory = payer_.load_place().directory;
  if (directory.empty()) return Error{ENOENT, payer_.path() + " has no cgroup around it here"};
  if (!payer_.is_v1()) {
    const std::string around = directory.substr(0, directory.rfind('/'));
    if (IsFirstLookInto(around)) RemoveOrphans(around);
    if (mkdir(directory.c_str(), 0755) != 0 && errno != EEXIST)
      return PosixError("mkdir " + directory, errno);
  }
  directory_ = OpenDirectory(AT_FDCWD, directory);
  if (!directory_.IsValid()) return PosixError(directory, errno);
  if (payer_.is_v1()) {
    constexpr const char* kEmpty = "memory.force_empty";
    if (faccessat(directory_.Get(), kEmpty, W_OK, 0) != 0) return PosixError(kEmpty, errno);
    return Ok();
  }
  if (const int code = Write(directory_.Get(), "cgroup.subtree_control", "+memory"); code != 0)
    return PosixError(directory + "/cgroup.subtree_control", code);
  can_reclaim_ = faccessat(directory_.Get(), "memory.reclaim", W_OK, 0) == 0;
  return Ok();
}

BurnParent::~BurnParent() {
  const std::string& directory = payer_.load_place().directory;
  // Another runner may have groups there.
  if (payer_.is_v1() || !directory_.IsValid() || !GroupsIn(directory_.Get()).empty()) return;
  if (payer_.load_place().is_beside) {
    constexpr uint64_t kStep = 64 << 20;
    const uint64_t until_ns = MonotonicNs() + kNsPerSec;
    uint64_t charged = Charged(directory_.Get());
    while (charged > 0 && MonotonicNs() < until_ns) {
      Evict(directory_.Get(), charged, std::min(charged, kStep));
      const uint64_t left = Charged(directory_.Get());
      if (left >= charged) break;
      charged = left;
    }
  }
  (void)rmdir(directory.c_str());
}

std::string BurnParent::NameOf(uint64_t number) {
  return kPrefix + std::to_string(getpid()) + "-" + std::to_string(number);
}

Result<UniqueFd> BurnParent::Make(const std::string& name) const {
  if (mkdirat(directory_.Get(), name.c_str(), 0755) != 0)
    return PosixError("make a burn group", errno);
  UniqueFd group = OpenDirectory(directory_.Get(), name);
  if (group.IsValid()) return group;
  Error error = PosixError("open a burn group", errno);
  (void)Remove(name);
  return error;
}

bool BurnParent::Remove(const std::string& name) const {
  return unlinkat(directory_.Get(), name.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT;
}

// v2.  Up to `bytes` of what is charged there.
void BurnParent::Evict(int group, uint64_t charged, uint64_t bytes) const {
  // The charge includes what is no page cache, so that the kernel may say it fell short.
  if (can_reclaim_) {
    (void)Write(group, "memory.reclaim", std::to_string(bytes));
  } else {
    (void)Write(group, "memory.high", std::to_string(charged - bytes));
  }
}

void BurnParent::Empty(int group) const {
  if (payer_.is_v1()) {
    (void)Write(group, "memory.force_empty", "0");
    return;
  }
  constexpr int kTries = 4;
  uint64_t charged = Charged(group);
  for (int i = 0; i < kTries && charged > 0; ++i) {
    Evict(group, charged, charged);
    const uint64_t left = Charged(group);
    if (left >= charged) break;
    charged = left;
  }
  if (!can_reclaim_) (void)Write(group, "memory.high", "max");  // a loader may still be there
}

void BurnParent::RemoveOwn() const { RemoveGroups(directory_.Get(), Owner::kThisProcess); }

void BurnParent::RemoveGroups(int directory, Owner owner) const {
  constexpr int kTries = 20;
  for (const std::string& name : GroupsIn(directory)) {
    const pid_t pid = std::atoi(name.c_str() + std::strlen(kPrefix));
    if (owner == Owner::kThisProcess ? pid != getpid() : !IsGone(pid)) continue;
    for (int i = 0; i < kTries; ++i) {
      if (unlinkat(directory, name.c_str(), AT_REMOVEDIR) == 0 || errno != EBUSY) break;
      usleep(5000);  // a process that was killed is on its way
    }
  }
}

// v2: places of payers that are gone, to which no runner will come.
void BurnParent::RemoveOrphans(const std::string& directory) const {
  const UniqueFd around = OpenDirectory(AT_FDCWD, directory);
  const std::vector<std::string> places = GroupsIn(around.Get());
  if (places.empty()) return;
  std::set<std::string> used;
  for (const std::string& name : EntriesOf(directory)) {
    struct stat st {};
    if (fstatat(around.Get(), name.c_str(), &st, 0) == 0)
      used.insert(kPrefix + std::to_string(st.st_ino));
  }
  for (const std::string& name : places) {
    if (used.contains(name)) continue;
    const UniqueFd left = OpenDirectory(around.Get(), name);
    if (left.IsValid()) RemoveGroups(left.Get(), Owner::kDeadProcess);
    (void)unlinkat(around.Get(), name.c_str(), AT_REMOVEDIR);
  }
}

bool BurnParent::UpdateLimit() {
  if (!payer_.load_place().is_beside) return false;
  constexpr uint64_t kMargin = 16 << 20;  // the payer may grow before the next look
  constexpr uint64_t kLeast = 4 << 20;    // of the loaders themselves
  constexpr uint64_t kUnit = 1 << 20;
  const std::optional<uint64_t> room = payer_.RoomBeside();
  const uint64_t high =
      !room ? kUnlimited : std::max(*room > kMargin ? *room - kMargin : 0, kLeast) / kUnit * kUnit;
  // Lowering it evicts what is beyond.
  if (high_.exchange(high) != high)
    (void)Write(directory_.Get(), "memory.high", high == kUnlimited ? "max" : std::to_string(high));
  return room && Charged(directory_.Get()) > kMargin;
}

}  // namespace ppc
