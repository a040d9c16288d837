// SPDX-License-Identifier: Apache-2.0
#include "daemon/backend/observer/observer_backend.h"

#include <bpf/libbpf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/base/clock.h"
#include "daemon/base/unique_fd.h"
#include "daemon/machine/mount_table.h"

namespace ppc {
namespace {

constexpr uint64_t kFirstScanNs = 500 * kNsPerMs;  // a registration waits this long
constexpr uint64_t kGatherNs = 100 * kNsPerMs;

Event FromRecord(const obs_event& raw) {
  Event event;
  event.file = raw.file;
  event.offset = raw.offset;
  event.length = raw.length;
  event.time_ns = raw.time_ns;
  event.start_ns = raw.start_ns;
  event.cgroup_id = raw.cgroup;
  event.tgid = raw.tgid;
  event.tid = raw.tid;
  event.kind = static_cast<EventKind>(raw.kind);
  event.flags = raw.flags;
  event.cpu = raw.cpu;
  return event;
}

}  // namespace

void ObserverBackend::RingDeleter::operator()(ring_buffer* ring) const { ring_buffer__free(ring); }

ObserverBackend::ObserverBackend(std::string dir, const SysRoots& roots,
                                 ObserverFiles::Limits limits)
    : dir_(std::move(dir)), roots_(roots), limits_(limits), names_(dir_) {}

Result<std::unique_ptr<ObserverBackend>> ObserverBackend::Open(
    const std::string& dir, const SysRoots& roots, std::unique_ptr<ObserverPrograms> programs,
    ObserverFiles::Limits limits) {
  std::unique_ptr<ObserverBackend> backend(new ObserverBackend(dir, roots, limits));
  backend->programs_ = std::move(programs);
  const Status started = backend->Start();
  if (!started) return started.error();
  return backend;
}

Status ObserverBackend::Start() {
  struct stat info {};
  if (stat(dir_.c_str(), &info) != 0) return PosixError(dir_, errno);
  if (!S_ISDIR(info.st_mode)) return PosixError(dir_, ENOTDIR);
  if (programs_ == nullptr) {
    Result<std::unique_ptr<ObserverPrograms>> programs = ObserverPrograms::Load(roots_);
    if (!programs) return programs.error();
    programs_ = std::move(*programs);
  }
  programs_->AddOwn(getpid());
  ring_.reset(ring_buffer__new(programs_->RingFd(), OnRecord, this, nullptr));
  if (ring_ == nullptr) return PosixError("map the ring of events", errno);
  programs_->SetRoot(dir_, info.st_dev, info.st_ino);
  index_ = std::make_unique<ObserverFiles>(dir_, programs_.get(), limits_);
  io_ = std::make_unique<ObserverIo>(
      dir_, roots_, ObserverIo::Parts{.index = index_.get(), .programs = programs_.get()});
  (void)index_->RefreshDeeperRoots();
  const Result<bool> scanned = index_->Scan(MonotonicNs() + kFirstScanNs);
  if (!scanned) return scanned.error();
  if (index_->Files() == 0 && index_->Unseen() > 0) {
    return Error{ENOTSUP, dir_ +
                              ": its file system does not keep files in the page cache; copy the "
                              "models to one that does"};
  }
  thread_ = std::make_unique<ObserverThread>(
      index_.get(), ObserverThread::Options{.dir = dir_,
                                            .dev = info.st_dev,
                                            .ino = info.st_ino,
                                            .wants_scan = !*scanned,
                                            .run_periodic = [this] { return RunPeriodic(); }});
  return Ok();
}

ObserverBackend::~ObserverBackend() {
  thread_.reset();
  io_.reset();
  ring_.reset();
  index_.reset();
  if (programs_ != nullptr) programs_->RemoveOwn(getpid());
}

Capabilities ObserverBackend::Caps() const {
  Capabilities caps;
  caps.backend = "observer";
  caps.unmap = true;
  caps.progress = true;
  caps.trace = true;
  caps.charge = true;
  caps.node = true;
  caps.misses_huge = !programs_->SeesHugePages();
  caps.misses_direct = true;
  caps.execs = programs_->CanReportExecs();
  caps.exact_counts = false;
  caps.least_loads = 4;  // each load waits for its step before the next
  caps.limits = {
      "the kernel's own read-ahead stays on; there is no demand window",
      "pages that several processes have touched are not evicted before they are unmapped",
      "loaded and evicted bytes are estimates if other processes use the same pages",
      ("opens and closes are not seen, and accesses through mappings that are in place already "
       "only where a page is not mapped yet")};
  if (!programs_->CanReportDirect()) {
    caps.limits.emplace_back(
        "this kernel does not tell who reads with O_DIRECT: what is loaded ahead of such a reader, "
        "once its service was seen to read otherwise, is read for nothing");
  }
  if (!programs_->KnowsFaultKind()) {
    caps.limits.emplace_back(
        "this kernel does not tell populated pages from the process's own faults (5.15 does)");
  }
  if (caps.misses_huge) {
    caps.limits.emplace_back(
        "fentry is not allowed on this kernel: hits of cached files by huge pages "
        "are not seen, and the start of a model that was in memory is recorded again");
  }
  if (!programs_->CanLearn()) {
    caps.limits.emplace_back(
        "this kernel does not show page-cache inodes (5.13 does): overlay, btrfs and NFS are not "
        "seen");
  }
  // JuiceFS follows two streams of an open file; of more it fetches parts twice.
  if (io_->kept().IsFuse()) caps.least_loads = caps.most_loads = 2;
  if (io_->kept().IsStreamed()) caps.limits.emplace_back(kStreamedLimit);
  if (io_->kept().HasDrops()) {
    caps.limits.emplace_back(
        "this file system drops a file's pages at every open: a file is loaded only once the "
        "service reads it, and stays open here for half a minute");
  }
  if (index_->IsIncomplete()) {
    caps.limits.emplace_back(
        "not all files can be listed here, and this file system opens none by "
        "its number: reads of unlisted files are not seen");
  }
  if (const uint64_t bypassed = programs_->Counts().bypassed; bypassed != 0) {
    caps.limits.push_back(std::to_string(bypassed >> 20) +
                          " MiB were read with O_DIRECT, past the page cache: nothing is loaded "
                          "ahead for such readers");
  }
  return caps;
}

uint64_t ObserverBackend::NowNs() const { return MonotonicNs(); }

Status ObserverBackend::Attach(const AttachOptions& options) {
  Status watched = programs_->Watch({.progress = options.progress,
                                     .trace = options.trace,
                                     .opens = options.open_close,
                                     .beacon_bytes = options.beacon_bytes});
  if (!watched) return watched;
  // Reads of files not listed yet were not reported.
  has_lost_ |= options.trace && !thread_->HasListed();
  thread_->WantScan();  // reports before this were dropped
  attached_ = true;
  is_traced_ = options.trace;
  return Ok();
}

void ObserverBackend::Detach() {
  programs_->Unwatch();
  attached_ = false;
}

// ---------------------------------------------------------------------- events

int ObserverBackend::OnRecord(void* self, void* data, size_t bytes) {
  auto* const backend = static_cast<ObserverBackend*>(self);
  if (bytes < sizeof(obs_event)) return 0;
  // A negative result ends the turn: the batch is full.
  return backend->Take(data, bytes) ? 0 : -ENOBUFS;
}

bool ObserverBackend::Take(const void* record, size_t bytes) {
  const obs_event& raw = *static_cast<const obs_event*>(record);
  if (raw.kind == kObsChanged) thread_->NoteChanged(raw.file, raw.dev);
  if (raw.kind == kObsUnlisted) TakeUnlisted(raw, record, bytes);
  if (raw.kind == kObsExec && seen_execs_.size() < kMaxExecs) {
    seen_execs_.push_back(
        {{raw.file, raw.dev}, raw.start_ns, raw.tgid, static_cast<uint32_t>(raw.offset)});
  }
  if (raw.kind < kObsUnlisted) Put(FromRecord(raw));
  return filling_.count < filling_.batch.size();
}

void ObserverBackend::TakeUnlisted(const obs_event& raw, const void* record, size_t bytes) {
  if (!index_->HasDiscovered()) return thread_->NoteUnlisted(raw.file, raw.dev);
  Event event = FromRecord(raw);
  event.file = index_->discovery()->Discover(raw.file, raw.dev, raw.generation);
  event.kind = static_cast<EventKind>(raw.miss_kind);
  event.flags = kEventNotUser;
  if (event.file == 0) return;
  constexpr size_t kNameAt = offsetof(obs_unlisted_event, name);
  if (bytes > kNameAt) {
    const char* const name = static_cast<const char*>(record) + kNameAt;
    index_->discovery()->NoteName(event.file,
                                  static_cast<const obs_unlisted_event*>(record)->folder,
                                  std::string_view(name, strnlen(name, bytes - kNameAt)));
  }
  Put(event);
}

void ObserverBackend::Put(const Event& event) {
  io_->Note(event);
  Event& slot = filling_.batch[filling_.count++];
  slot = event;
  if (std::exchange(has_lost_, false)) slot.flags |= kEventLost;
}

void ObserverBackend::QueueGathered(const obs_reader_key& key, const obs_reader& reader) {
  Event event;
  event.file = key.file;
  event.time_ns = reader.time_ns;
  event.start_ns = reader.start_ns;
  event.cgroup_id = reader.cgroup;
  event.tgid = reader.tgid;
  event.tid = static_cast<int32_t>(key.tid);
  const auto put = [&](uint64_t from, uint64_t to, EventKind kind, uint8_t flags) {
    if (to <= from || gathered_.size() >= kMaxGathered) return;
    event.offset = from;
    event.length = to - from;
    event.kind = kind;
    event.flags = flags;
    gathered_.push_back(event);
  };
  put(reader.miss_end, reader.miss_to, static_cast<EventKind>(reader.miss_kind), kEventNotUser);
  event.time_ns = reader.accessed_ns;
  put(reader.first, reader.end, EventKind::kAccess, reader.flags);
}

// A reader that pauses has unreported accesses and insertions.
void ObserverBackend::GatherOld() {
  const uint64_t now = MonotonicNs();
  if (!attached_ || now < gathered_ns_ + kGatherNs) return;
  gathered_ns_ = now;
  programs_->TakeGathered(
      now, kGatherNs, [this](const auto& key, const auto& reader) { QueueGathered(key, reader); });
}

// Copies without removing: a reader that continues meanwhile would lose its additions.
void ObserverBackend::Gather() {
  if (!attached_ || !is_traced_) return;
  programs_->EachGathered([this](const auto& key, obs_reader reader) {
    reader.miss_to = reader.miss_end;
    QueueGathered(key, reader);
  });
}

size_t ObserverBackend::Drain(std::span<Event> batch) {
  filling_ = Filling{batch, 0};
  if (batch.empty()) return 0;
  (void)ring_buffer__consume(ring_.get());
  // Gathered accesses are older than the next events of the rings, younger than the last.
  GatherOld();
  while (filling_.count < batch.size() && !gathered_.empty()) {
    Put(gathered_.front());
    gathered_.pop_front();
  }
  return filling_.count;
}

void ObserverBackend::TakeExecs(std::vector<Exec>* out) {
  out->insert(out->end(), seen_execs_.begin(), seen_execs_.end());
  seen_execs_.clear();
}

WaitOutcome ObserverBackend::Wait(uint64_t timeout_ns, bool nap, std::span<pollfd> others) {
  if (thread_->IsGone()) return WaitOutcome::kGone;
  std::vector<pollfd> fds(others.begin(), others.end());
  if (!nap) fds.push_back(pollfd{ring_buffer__epoll_fd(ring_.get()), POLLIN, 0});
  timespec timeout{static_cast<time_t>(timeout_ns / kNsPerSec),
                   static_cast<long>(timeout_ns % kNsPerSec)};
  const int ready = ppoll(fds.data(), fds.size(), &timeout, nullptr);
  bool is_other = false;
  for (size_t i = 0; i < others.size(); ++i) {
    others[i].revents = ready > 0 ? fds[i].revents : static_cast<short>(0);
    is_other |= others[i].revents != 0;
  }
  if (is_other) return WaitOutcome::kOther;
  if (ready > 0) return WaitOutcome::kEvents;
  return WaitOutcome::kTimeout;
}

// ----------------------------------------------------------------------- names

Result<FileInfo> ObserverBackend::Resolve(uint64_t file, std::string* path) {
  // The file has just been read from a local file system, so its metadata is in memory.  Asking
  // another thread for each of very many files would be too slow.
  if (index_->HasDiscovered()) return index_->Resolve(file, path);
  ObserverThread::Answer answer = thread_->Ask([this, file] {
    std::string name;
    Result<FileInfo> info = index_->Resolve(file, &name);
    return ObserverThread::Answer{std::move(info), std::move(name)};
  });
  if (path != nullptr) *path = std::move(answer.path);
  return std::move(answer.info);
}

void ObserverBackend::KeepName(uint64_t file) {
  if (FileDiscovery* const discovery = DiscoveryOf(file)) discovery->KeepName(file);
}

std::optional<FileInfo> ObserverBackend::Peek(uint64_t file) const {
  const FileDiscovery* const discovery = DiscoveryOf(file);
  return discovery == nullptr ? std::nullopt : discovery->Peek(file);
}

Result<FileInfo> ObserverBackend::Lookup(const std::string& path) {
  return thread_->Ask([this, path] {
                  return ObserverThread::Answer{index_->Lookup(path), ""};
                })
      .info;
}

Result<size_t> ObserverBackend::Read(const std::string& path, uint64_t offset,
                                     std::span<uint8_t> buffer) {
  if (io_->kept().IsFuse()) {
    const Result<FileInfo> file = Lookup(path);
    if (file) return io_->Read(file->file, path, offset, buffer);
  }
  return names_.Read(path, offset, buffer);
}

Status ObserverBackend::List(const std::string& path, const DirEntry& entry) {
  return names_.List(path, entry);
}

Result<BackendCounters> ObserverBackend::Counters() {
  if (thread_->IsGone()) return Error{ENODEV, dir_ + " is gone"};
  const obs_counts counts = programs_->Counts();
  BackendCounters counters;
  counters.events_queued = counts.sent;
  counters.events_lost = counts.lost;
  counters.events_skipped = programs_->Skipped();
  counters.events_coalesced = counts.coalesced;
  counters.bypassed_bytes = counts.bypassed;
  counters.wakeups = counts.wakeups;
  counters.attached = attached_;
  return counters;
}

// Called by the observer's own thread.
ObserverThread::PeriodicResult ObserverBackend::RunPeriodic() {
  // Close idle files first: the look-up below may wait for the file system.
  const uint64_t next_ns = io_->RunPeriodic(MonotonicNs());
  return {next_ns, index_->RefreshDeeperRoots()};
}

Result<Executable> ObserverBackend::ExecutableAt(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat info {};
  if (!fd.IsValid() || fstat(fd.Get(), &info) != 0) return PosixError("open " + path, errno);
  if (!S_ISREG(info.st_mode)) return Error{EINVAL, path + " is no file"};
  const dev_t dev = info.st_dev;
  if (!programs_->CanLearn()) return Executable{info.st_ino, (major(dev) << 20) | minor(dev)};
  void* const at = mmap(nullptr, kPageBytes, PROT_READ, MAP_SHARED, fd.Get(), 0);
  if (at == MAP_FAILED) return PosixError("map " + path, errno);
  const Result<std::vector<obs_vma>> seen = programs_->OwnMappings();
  munmap(at, kPageBytes);
  if (!seen) return seen.error();
  const auto found = std::ranges::find(*seen, reinterpret_cast<uintptr_t>(at), &obs_vma::start);
  if (found == seen->end()) return Error{ENOENT, path + " is in no page cache"};
  return Executable{found->ino, found->dev};
}

void ObserverBackend::WatchExecs(std::span<const Executable> files) {
  const std::set<Executable> wanted(files.begin(), files.end());
  for (const Executable& old : watched_) {
    if (!wanted.contains(old)) programs_->RemoveExecutable(old.ino, old.dev);
  }
  for (const Executable& file : wanted) {
    if (!watched_.contains(file)) (void)programs_->AddExecutable(file.ino, file.dev);
  }
  watched_ = wanted;
  // An attached program costs time at every exec on the machine.
  programs_->WantExecs(!watched_.empty());
}

}  // namespace ppc
