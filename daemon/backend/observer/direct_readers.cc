// SPDX-License-Identifier: Apache-2.0
#include "daemon/backend/observer/direct_readers.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "daemon/base/clock.h"
#include "daemon/base/files.h"
#include "daemon/machine/proc_info.h"

namespace ppc {
namespace {

constexpr uint64_t kLookAgainNs = 25 * kNsPerMs;  // what is loaded meanwhile is for nothing
constexpr uint64_t kActiveNs = kNsPerSec;
constexpr uint64_t kTrustNs = 2 * kNsPerSec;
constexpr uint64_t kYoungNs = 60 * kNsPerSec;
constexpr uint64_t kReadsBytes = 1 << 20;  // since the last look: it reads something
constexpr uint64_t kTrustBytes = 4 << 20;  // more than headers
constexpr uint64_t kUnmarkBytes = 16 << 20;
constexpr size_t kMostFiles = 65536;
constexpr uint64_t kCpuShare = 20;  // looks take at most this part of one CPU

struct BytesRead {
  uint64_t all = 0;  // by calls, and past the cache by whatever means
  uint64_t disk = 0;
};

BytesRead BytesReadBy(const SysRoots& roots, int pid) {
  const Result<std::string> text = ReadFile(roots.Proc("/" + std::to_string(pid) + "/io"), 4096);
  if (!text) return {};
  const uint64_t disk = NumberAfter(*text, "\nread_bytes:").value_or(0);
  return {NumberAfter(*text, "rchar:").value_or(0) + disk, disk};
}

bool IsInGroup(const std::string& cgroup, const std::string& group) {
  return group.empty() || group == "/" || cgroup == group || cgroup.starts_with(group + "/");
}

}  // namespace

DirectReaders::State DirectReaders::Of(uint32_t folder, const std::string& payer) const {
  State state = State::kNone;
  if (!HasMarks()) return state;
  const std::lock_guard lock(mutex_);
  for (auto mark = marks_.lower_bound({folder, ""});
       mark != marks_.end() && mark->first.first == folder; ++mark) {
    if (!IsInGroup(mark->first.second, payer)) continue;
    if (mark->second.is_open) return State::kSeen;
    state = State::kRemember;
  }
  return state;
}

bool DirectReaders::NoteLoad(uint64_t file, uint32_t folder) {
  if (HasMarks()) {
    const std::lock_guard lock(mutex_);
    if (folders_.size() >= kMostFiles) folders_.erase(folders_.begin());
    folders_[file] = folder;
  }
  return !has_loaded_.exchange(true) && !is_due_.load();
}

void DirectReaders::Unmark(uint64_t file, uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto folder = folders_.find(file);
  if (folder == folders_.end()) return;
  for (auto& [key, mark] : marks_) {
    if (key.first == folder->second) mark.read_bytes += bytes;
  }
  std::erase_if(marks_, [](const auto& entry) { return entry.second.read_bytes >= kUnmarkBytes; });
  has_marks_.store(!marks_.empty(), std::memory_order_relaxed);
}

uint64_t DirectReaders::Look(uint64_t now_ns) {
  if (read_.exchange(0, std::memory_order_relaxed) >= kTrustBytes) {
    trusted_until_ns_ = now_ns + kTrustNs;
  }
  if (has_loaded_.exchange(false)) active_until_ns_ = now_ns + kActiveNs;
  bool is_active = now_ns < active_until_ns_;
  const bool is_marked = LookAtMarks();
  if (!is_marked && !is_active) {
    is_due_.store(false);
    // A load from now on asks for a look; one that came in between has not.
    if (!has_loaded_.exchange(false)) {
      processes_.clear();
      return 0;
    }
    active_until_ns_ = now_ns + kActiveNs;
    is_active = true;
  }
  is_due_.store(true);
  if (now_ns < trusted_until_ns_) return kLookAgainNs;
  if (is_active) {
    ++looks_;
    const uint64_t boot_ns = BootNs();
    for (const int pid : ListNumbers(roots_.Proc(""))) {
      if (pid != getpid()) LookAtProcess(pid, boot_ns);
    }
    std::erase_if(processes_, [&](const auto& entry) { return entry.second.look != looks_; });
  }
  return std::max(kLookAgainNs, kCpuShare * (MonotonicNs() - now_ns));
}

// Whether a marked process is still there.
bool DirectReaders::LookAtMarks() {
  if (!HasMarks()) return false;
  bool is_open = false;
  std::set<int> counted;
  const std::lock_guard lock(mutex_);
  for (auto& [key, mark] : marks_) {
    mark.is_open = mark.is_open && IsSameProcess(roots_, mark.pid, mark.start_ns);
    is_open |= mark.is_open;
    if (!mark.is_open || !counted.insert(mark.pid).second) continue;
    const uint64_t disk = BytesReadBy(roots_, mark.pid).disk;
    if (disk > mark.disk_bytes) bypassed_ += disk - std::exchange(mark.disk_bytes, disk);
  }
  return is_open;
}

void DirectReaders::LookAtProcess(int pid, uint64_t boot_ns) {
  const auto [entry, is_new] = processes_.try_emplace(pid);
  Process& process = entry->second;
  process.look = looks_;
  if (is_new) process.start_ns = ProcessStartNs(roots_, pid).value_or(0);
  const uint64_t read = BytesReadBy(roots_, pid).all;
  const bool reads = !is_new && read >= process.read_bytes + kReadsBytes;
  process.read_bytes = read;
  // Descriptors cost most: only when a process has come, and when it has read since.
  const bool is_young = boot_ns < process.start_ns + kYoungNs;
  if (reads || (is_new && is_young)) LookAtDescriptors(pid, process.start_ns);
}

void DirectReaders::LookAtDescriptors(int pid, uint64_t start_ns) {
  const std::string base = roots_.Proc("/" + std::to_string(pid));
  for (const int fd : ListNumbers(base + "/fdinfo")) {
    const std::string number = std::to_string(fd);
    const Result<std::string> info = ReadFile(base + "/fdinfo/" + number, 4096);
    if (!info || (NumberAfter(*info, "flags:", 8).value_or(0) & O_DIRECT) == 0) continue;
    struct statx found {};
    // What is known of it will do: a server is not asked.
    const int code = statx(AT_FDCWD, (base + "/fd/" + number).c_str(), AT_STATX_DONT_SYNC,
                           STATX_INO | STATX_TYPE, &found);
    if (code != 0 || !S_ISREG(found.stx_mode)) continue;
    const std::optional<uint32_t> folder =
        folder_of_(makedev(found.stx_dev_major, found.stx_dev_minor), found.stx_ino);
    if (!folder) continue;
    // A process that has just ended was in no cgroup that counts for another process.
    std::string cgroup = ProcessCgroup(roots_, pid).value_or("/");
    const std::lock_guard lock(mutex_);
    Mark& mark = marks_[{*folder, std::move(cgroup)}];
    const bool is_known = mark.pid == pid && mark.start_ns == start_ns;
    const uint64_t disk = is_known ? mark.disk_bytes : BytesReadBy(roots_, pid).disk;
    mark = Mark{pid, start_ns, true, 0, disk};
    has_marks_.store(true, std::memory_order_relaxed);
  }
}

std::string DirectReaders::Words() const {
  const std::lock_guard lock(mutex_);
  for (const auto& [key, mark] : marks_) {
    return "process " + std::to_string(mark.pid) + (mark.is_open ? " reads" : " read") +
           " with O_DIRECT, past the page cache: nothing is loaded there for services of its "
           "cgroup until a process reads through it; at least " +
           std::to_string(bypassed_bytes() >> 20) + " MiB went past it so far";
  }
  return "";
}

}  // namespace ppc
