// SPDX-License-Identifier: Apache-2.0
#include "extras/poll/poll_backend.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "daemon/backend/file_cache.h"
#include "daemon/base/clock.h"
#include "daemon/base/files.h"
#include "daemon/machine/mount_table.h"

namespace ppc {
namespace {

// 0: not set.
Result<int> WatchedPid() {
  const char* const text = std::getenv("PPC_POLL_PID");
  if (text == nullptr || *text == '\0') return 0;
  int pid = 0;
  const char* const end = text + std::strlen(text);
  const auto parsed = std::from_chars(text, end, pid);
  if (parsed.ec != std::errc() || parsed.ptr != end || pid <= 0)
    return Error{EINVAL, "PPC_POLL_PID is no process number; set it to one or unset it"};
  return pid;
}

constexpr uint64_t kReadBytes = 64 << 10;  // fits the CPU's cache while it is copied
constexpr size_t kMostIovecs = kStepBytes / kReadBytes;

// Starts reading the absent pages of one piece without waiting; returns the present bytes at its
// beginning.
uint64_t StartPiece(int fd, uint64_t offset, uint64_t length, std::span<char> scratch) {
  // All parts use the same memory, whose content is ignored.
  std::array<iovec, kMostIovecs> parts;
  size_t count = 0;
  for (uint64_t left = length; left > 0 && count < parts.size(); ++count) {
    parts[count] = iovec{scratch.data(), std::min<uint64_t>(scratch.size(), left)};
    left -= parts[count].iov_len;
  }
  const ssize_t got =
      preadv2(fd, parts.data(), static_cast<int>(count), static_cast<off_t>(offset), RWF_NOWAIT);
  const uint64_t there = got < 0 ? 0 : static_cast<uint64_t>(got);
  if (there < length) {
    (void)posix_fadvise(fd, static_cast<off_t>(offset + there), static_cast<off_t>(length - there),
                        POSIX_FADV_WILLNEED);
  }
  return there;
}

// Waits for the reads that were started; returns how far, less if memory is short or the file was
// cut.
uint64_t Await(int fd, uint64_t from, uint64_t to, std::span<char> scratch, LoadResult* result) {
  while (from < to) {
    const uint64_t part = std::min<uint64_t>(scratch.size(), to - from);
    const ssize_t got = pread(fd, scratch.data(), part, static_cast<off_t>(from));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == ENOMEM) result->stop = LoadStop::kNoMemory;
    if (got == 0) result->stop = LoadStop::kEof;
    if (got == 0 || (got < 0 && errno == ENOMEM)) break;
    if (got < 0) result->failed += part;
    from += got < 0 ? part : static_cast<uint64_t>(got);
  }
  return from;
}

}  // namespace

Result<std::unique_ptr<PollBackend>> PollBackend::Open(const std::string& dir,
                                                       const SysRoots& roots) {
  const Result<int> pid = WatchedPid();
  if (!pid) return pid.error();
  // Paths in /proc have no links.
  const std::unique_ptr<char, decltype(&std::free)> real(realpath(dir.c_str(), nullptr),
                                                         &std::free);
  if (real == nullptr) return PosixError("open " + dir, errno);
  struct stat st {};
  if (stat(real.get(), &st) != 0) return PosixError("open " + dir, errno);
  if (!S_ISDIR(st.st_mode)) return PosixError(dir + " is to be polled for", ENOTDIR);
  if (access(real.get(), R_OK | X_OK) != 0) {
    const int code = errno;
    return Error{code, "cannot read " + dir + ": " + std::strerror(code) +
                           "; register a directory that this user may read"};
  }
  return std::unique_ptr<PollBackend>(
      new PollBackend(real.get(), *pid, MountType(roots, st.st_dev) == kStreamed, roots));
}

PollBackend::PollBackend(std::string dir, int root_pid, bool is_streamed, const SysRoots& roots)
    : dir_(std::move(dir)),
      root_pid_(root_pid),
      is_streamed_(is_streamed),
      files_(dir_),
      events_(kMaxEvents),
      sink_(&files_, &events_),
      reader_(roots),
      poller_(roots, root_pid, &files_, &sink_) {}

Capabilities PollBackend::Caps() const {
  Capabilities caps{
      .backend = "poll", .progress = true, .trace = true, .open_close = true, .sampled = true};
  caps.least_loads = 4;  // each load waits for its step before the next
  caps.limits = {
      "Positions are sampled about every 15 ms: short reads, reads from the cache and io_uring are "
      "not seen one by one, and a pread loader is taken to go on in sequence between two waits.",
      "Whether a mapped page was cached before it was touched is unknown: a page that was not "
      "loaded for it counts as a miss.",
      "The residency of other users' files is unknown: counts are the bytes that were loaded or "
      "seen being read.",
      "Mapped pages are left to reclaim; only unmapped pages are dropped.",
      "Loads are charged to the runner's own cgroup and placed by the kernel.",
      "The kernel's own read-ahead stays on.",
  };
  if (is_streamed_) caps.limits.emplace_back(kStreamedLimit);
  if (root_pid_ == 0 && geteuid() != 0)
    caps.limits.emplace_back("Only processes of the runner's own user are watched.");
  if (root_pid_ != 0) {
    caps.limits.push_back("Only process " + std::to_string(root_pid_) +
                          " and its descendants are watched.");
  }
  if (poller_.IsDenied()) {
    caps.limits.emplace_back(
        "The kernel does not show where the processes wait, so only mappings and read(2) are "
        "followed; set kernel.yama.ptrace_scope to 0.");
  }
  return caps;
}

uint64_t PollBackend::NowNs() const { return MonotonicNs(); }

Status PollBackend::Attach(const AttachOptions& options) {
  sink_.Set(options);
  is_attached_ = true;
  poller_.Start();
  return Ok();
}

void PollBackend::Detach() {
  is_attached_ = false;
  poller_.Stop();
}

WaitOutcome PollBackend::Wait(uint64_t timeout_ns, bool nap, std::span<pollfd> others) {
  constexpr size_t kMaxOthers = 15;
  std::array<pollfd, kMaxOthers + 1> fds;
  const size_t count = std::min(others.size(), kMaxOthers);
  std::copy_n(others.begin(), count, fds.begin());
  fds[count] = pollfd{events_.fd(), POLLIN, 0};
  const timespec timeout{static_cast<time_t>(timeout_ns / kNsPerSec),
                         static_cast<long>(timeout_ns % kNsPerSec)};
  if (ppoll(fds.data(), nap ? count : count + 1, &timeout, nullptr) <= 0)
    return WaitOutcome::kTimeout;
  bool other = false;
  for (size_t i = 0; i < count; ++i) {
    others[i].revents = fds[i].revents;
    other |= fds[i].revents != 0;
  }
  if (!nap && fds[count].revents != 0) return WaitOutcome::kEvents;
  return other ? WaitOutcome::kOther : WaitOutcome::kTimeout;
}

Result<FileInfo> PollBackend::Resolve(uint64_t file, std::string* path) {
  return files_.Resolve(file, path);
}

Result<LoadResult> PollBackend::Load(const LoadRequest& request) {
  if (is_streamed_) return LoadResult{.stop = LoadStop::kLater};
  FileStat stat;
  const Result<UniqueFd> fd = files_.Open(request.file, &stat);
  if (!fd) return fd.error();
  const LoadResult result = reader_.Load(fd->Get(), stat, request);
  files_.MarkPresent(request.file, request.offset, result.done);
  return result;
}

// Mapped pages stay: they are certainly cached.
void PollBackend::Keep(uint64_t file, uint64_t offset, const std::vector<bool>& mapped) {
  for (size_t page = 0; page < mapped.size(); ++page) {
    if (mapped[page]) files_.MarkPresent(file, offset + page * kPageBytes, kPageBytes);
  }
}

Result<EvictResult> PollBackend::Evict(const EvictRequest& request) {
  FileStat stat;
  const Result<UniqueFd> fd = files_.Open(request.file, &stat);
  if (!fd) return fd.error();
  EvictResult result;
  if (request.offset >= stat.size) return result;
  const uint64_t offset = (request.offset + kPageBytes - 1) / kPageBytes * kPageBytes;
  const bool to_end = request.length >= stat.size - request.offset;
  const uint64_t end =
      to_end ? stat.size : (request.offset + request.length) / kPageBytes * kPageBytes;
  if (offset >= end) return result;
  const uint64_t length = end - offset;
  std::vector<bool> bits((length + kPageBytes - 1) / kPageBytes);
  poller_.AddMapped(request.file, offset, length, &bits);
  const auto pages = static_cast<uint64_t>(std::count(bits.begin(), bits.end(), true));
  const uint64_t mapped = std::min(pages * kPageBytes, length);
  const std::optional<CacheCount> before = CountCached(fd->Get(), stat, offset, length, {});
  const uint64_t believed = files_.PresentBytes(request.file, offset, length);
  const int code = posix_fadvise(fd->Get(), static_cast<off_t>(offset),
                                 to_end ? 0 : static_cast<off_t>(length), POSIX_FADV_DONTNEED);
  if (code != 0) return PosixError("evict", code);
  const std::optional<CacheCount> after = CountCached(fd->Get(), stat, offset, length, {});
  files_.MarkAbsent(request.file, offset, length);
  Keep(request.file, offset, bits);
  if (before && after) {
    const uint64_t left = std::min(after->resident, before->resident);
    result.asked = before->resident;
    result.dropped = before->resident - left;
    result.mapped = std::min(left, mapped);
    result.dirty = std::min(left - result.mapped, after->dirty);
    result.busy = left - result.mapped - result.dirty;
    return result;
  }
  result.asked = std::max(believed, mapped);
  result.mapped = mapped;
  result.dropped = result.asked - mapped;
  return result;
}

Result<Residency> PollBackend::Resident(uint64_t file, uint64_t offset, uint64_t length,
                                        std::span<uint8_t> bitmap) {
  FileStat stat;
  const Result<UniqueFd> fd = files_.Open(file, &stat);
  if (!fd) return fd.error();
  Residency result;
  std::fill(bitmap.begin(), bitmap.end(), uint8_t{0});
  if (offset >= stat.size) return result;
  const uint64_t rest = stat.size - offset;
  length = length == 0 ? rest : std::min(length, rest);
  const std::optional<CacheCount> counted = CountCached(fd->Get(), stat, offset, length, bitmap);
  if (counted) {
    result.resident = counted->resident;
    result.dirty = counted->dirty;
    return result;
  }
  result.resident = files_.PresentBytes(file, offset, length);
  const uint64_t pages =
      std::min<uint64_t>((length + kPageBytes - 1) / kPageBytes, bitmap.size() * 8);
  for (uint64_t page = 0; page < pages; ++page) {
    if (files_.IsPresent(file, offset + page * kPageBytes))
      bitmap[page / 8] = static_cast<uint8_t>(bitmap[page / 8] | 1 << page % 8);
  }
  return result;
}

Result<uint32_t> PollBackend::Charge(int cgroup_fd) {
  (void)cgroup_fd;
  return Error{EOPNOTSUPP, "polling loads in the runner's own cgroup"};
}

Status PollBackend::SetFileNative(uint64_t file, bool native) {
  (void)file;
  (void)native;
  return Ok();  // native read-ahead is always on
}

Result<BackendCounters> PollBackend::Counters() {
  if (poller_.IsGone()) return Error{ENODEV, dir_ + " is gone"};
  const EventQueue::Counters counted = events_.Count();
  const AttachOptions options = sink_.Get();
  const auto or_default = [](uint64_t bytes, uint64_t other) { return bytes != 0 ? bytes : other; };
  return BackendCounters{.events_queued = counted.queued,
                         .events_lost = counted.lost,
                         .wakeups = counted.wakeups,
                         .attached = is_attached_,
                         .window_bytes = or_default(options.window_bytes, EventSink::kWindowBytes),
                         .beacon_bytes = or_default(options.beacon_bytes, EventSink::kBeaconBytes)};
}

std::optional<CacheCount> CountCached(int fd, const FileStat& stat, uint64_t offset,
                                      uint64_t length, std::span<uint8_t> bitmap) {
  std::fill(bitmap.begin(), bitmap.end(), uint8_t{0});
  if (length == 0) return CacheCount{};
  const Result<uint64_t> dirty = DirtyBytes(fd, offset, length);  // the kernel counts
  const uid_t user = geteuid();
  // To other users mincore reports all pages as present.
  const bool is_told = user == 0 || user == stat.uid;
  if (!is_told && (!dirty || !bitmap.empty())) return std::nullopt;
  const Result<uint64_t> cached =
      bitmap.empty() ? CachedBytes(fd, offset, length)
                     : CachedPages(fd, offset, length, bitmap.data(), bitmap.size());
  if (!cached) return std::nullopt;
  return CacheCount{std::min(*cached, length), dirty ? *dirty : 0};
}

uint64_t FileReader::PieceBytes(const FileStat& stat) {
  const std::lock_guard lock(mutex_);
  const auto [found, is_new] = pieces_.try_emplace({stat.id.dev_major, stat.id.dev_minor}, 0);
  if (is_new) found->second = ReadAheadBytes(roots_, stat.id.dev_major, stat.id.dev_minor);
  return found->second;
}

LoadResult FileReader::Load(int fd, const FileStat& stat, const LoadRequest& request) {
  LoadResult result;
  if (request.offset >= stat.size) {
    result.stop = LoadStop::kEof;
    return result;
  }
  const uint64_t length = std::min(request.length, stat.size - request.offset);
  const uint64_t end = request.offset + length;
  const std::optional<CacheCount> counted = CountCached(fd, stat, request.offset, length, {});
  if (counted && counted->resident >= length) {
    result.resident = result.done = length;
    return result;
  }
  // Our own reads show neither the pages' use nor what comes next.
  (void)posix_fadvise(fd, 0, 0, POSIX_FADV_NOREUSE);
  (void)posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
  const uint64_t piece = PieceBytes(stat);
  static thread_local std::vector<char> scratch(kReadBytes);
  uint64_t there = 0;
  for (uint64_t at = request.offset; at < end && result.stop == LoadStop::kDone;) {
    if (request.IsInterrupted()) {
      result.stop = LoadStop::kCancelled;
      break;
    }
    const uint64_t step_end = std::min(end, at + kStepBytes);
    std::vector<std::pair<uint64_t, uint64_t>> absent;  // [from, to)
    for (; at < step_end; at += std::min(piece, step_end - at)) {
      const uint64_t to = std::min(at + piece, step_end);
      const uint64_t cached = StartPiece(fd, at, to - at, scratch);
      there += cached;
      if (at + cached < to) absent.emplace_back(at + cached, to);
    }
    result.done = step_end - request.offset;
    for (const auto& [from, to] : absent) {
      const uint64_t read = Await(fd, from, to, scratch, &result);
      if (read == to) continue;
      result.done = read - request.offset;
      break;
    }
  }
  // The pages counted before may lie anywhere in the range: a part gets its share.
  if (counted) there = counted->resident * result.done / length;
  result.resident = std::min(there, result.done);
  result.submitted = result.done - result.resident;
  result.failed = std::min(result.failed, result.submitted);
  result.loaded = result.submitted - result.failed;
  return result;
}

}  // namespace ppc
