// SPDX-License-Identifier: Apache-2.0
#include "daemon/backend/kmod/kmod_backend.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "daemon/base/clock.h"

namespace ppc {
namespace {

Event FromKernel(const ppc_event& raw) {
  Event event;
  event.file = raw.file_id;
  event.offset = raw.offset;
  event.length = raw.length;
  event.time_ns = raw.time_ns;
  event.start_ns = raw.start_ns;
  event.cgroup_id = raw.cgroup_id;
  event.open_id = raw.open_id;
  event.tgid = raw.tgid;
  event.tid = raw.tid;
  event.kind = static_cast<EventKind>(raw.kind);
  event.flags = raw.flags;
  event.cpu = raw.cpu;
  return event;
}

FileInfo FromKernel(const ppc_file& raw) {
  FileInfo info;
  info.file = raw.file_id;
  info.size = raw.size;
  info.ino = raw.ino;
  info.mtime_ns = raw.mtime_sec * static_cast<int64_t>(kNsPerSec) + raw.mtime_nsec;
  info.dev_major = raw.dev_major;
  info.dev_minor = raw.dev_minor;
  return info;
}

uint32_t AttachFlags(const AttachOptions& options) {
  return (options.managed_readahead ? PPC_ATTACH_MANAGED_RA : 0u) |
         (options.progress ? PPC_ATTACH_BEACON : 0u) | (options.trace ? PPC_ATTACH_TRACE : 0u) |
         (options.open_close ? PPC_ATTACH_OPENCLOSE : 0u);
}

}  // namespace

Result<std::unique_ptr<KmodBackend>> KmodBackend::Open(const std::string& path,
                                                       const UpcMount& found) {
  Result<UpcDevice> events = UpcDevice::Open(found.device);
  if (!events) return events.error();
  Result<UpcDevice> loader = UpcDevice::Open(found.device);
  if (!loader) return loader.error();
  const Result<ppc_info> info = loader->Info();
  if (!info) return info.error();
  return std::unique_ptr<KmodBackend>(new KmodBackend(std::move(*events), std::move(*loader),
                                                      RootFiles(path, found.st_dev), *info));
}

KmodBackend::KmodBackend(UpcDevice events, UpcDevice loader, RootFiles files, ppc_info info)
    : events_(std::move(events)),
      loader_(std::move(loader)),
      files_(std::move(files)),
      numbers_(ModuleCalls()),
      info_(info),
      first_generation_(MonotonicNs()),
      raw_(kBatch) {}

Capabilities KmodBackend::Caps() const {
  Capabilities caps{.backend = "kmod",
                    .unmap = true,
                    .progress = true,
                    .trace = true,
                    .charge = true,
                    .node = true,
                    .open_close = true,
                    .managed_readahead = true,
                    .exact_counts = true,
                    .limits = {}};
  if (!CanCharge()) {
    caps.limits.push_back(
        "loads for a cgroup that takes no processes (its children have controllers) are charged "
        "to the runner's cgroup");
  }
  return caps;
}

uint64_t KmodBackend::NowNs() const { return MonotonicNs(); }

Status KmodBackend::Attach(const AttachOptions& options) {
  ppc_attach request{};
  request.flags = AttachFlags(options);
  request.lease_ms = options.lease_ms;
  // What does not fit is for the module to refuse, not to be cut to something else.
  const auto fit = [](uint64_t bytes) {
    return static_cast<uint32_t>(std::min<uint64_t>(bytes, UINT32_MAX));
  };
  request.window_bytes = fit(options.window_bytes);
  request.beacon_bytes = fit(options.beacon_bytes);
  std::strncpy(request.label, options.label.c_str(), sizeof(request.label) - 1);
  const Result<ppc_attach> attached = events_.Attach(request);
  if (!attached) return attached.error();
  return Ok();
}

void KmodBackend::Detach() { events_.Detach(); }

void KmodBackend::RenewLease() { (void)events_.Info(); }

size_t KmodBackend::Drain(std::span<Event> batch) {
  const size_t wanted = std::min(batch.size(), raw_.size());
  const size_t got = events_.Drain(std::span(raw_.data(), wanted));
  uint64_t number = 0;
  uint64_t file = 0;
  for (size_t i = 0; i < got; ++i) {
    batch[i] = FromKernel(raw_[i]);
    // Most are of the file of the one before.
    if (batch[i].file != number) file = numbers_.FileOf(number = batch[i].file);
    batch[i].file = file;
  }
  if (got > 0) numbers_.Trim();
  return got;
}

WaitOutcome KmodBackend::Wait(uint64_t timeout_ns, bool nap, std::span<pollfd> others) {
  switch (events_.Sleep(timeout_ns, nap, others)) {
    case UpcDevice::Woken::kEvents:
      return WaitOutcome::kEvents;
    case UpcDevice::Woken::kOther:
      return WaitOutcome::kOther;
    case UpcDevice::Woken::kTimeout:
      return WaitOutcome::kTimeout;
    case UpcDevice::Woken::kHangUp:
      break;
  }
  // A mount that is going hangs up a little before its ioctls fail.
  const Result<ppc_info> info = events_.Info();
  const bool expired = info && (info->state & PPC_STATE_EXPIRED) != 0;
  return expired ? WaitOutcome::kExpired : WaitOutcome::kGone;
}

KmodFiles::Module KmodBackend::ModuleCalls() {
  return {.resolve = [this](uint64_t number, std::string* path) { return AskNumber(number, path); },
          .look_up = [this](const std::string& path) { return AskPath(path); },
          .set_native = [this](uint64_t number, bool native) -> Status {
            ppc_file_mode mode{};
            mode.file_id = number;
            mode.mode = native ? PPC_FILE_NATIVE : PPC_FILE_POLICY;
            const int code = loader_.Call(PPC_IOC_FILE_MODE, &mode);
            if (code != 0) return PosixError("set a file's mode", code);
            return Ok();
          }};
}

Result<FileInfo> KmodBackend::Resolve(uint64_t file, std::string* path) {
  return numbers_.Resolve(file, path);
}

Result<FileInfo> KmodBackend::Lookup(const std::string& path) { return numbers_.Lookup(path); }

Status KmodBackend::SetFileNative(uint64_t file, bool native) {
  return numbers_.SetNative(file, native);
}

// The thread that consumes the events asks about every new number, and the module may wait for the
// disk: without a word of life several slow answers in a row would cost us the attachment.
Result<FileInfo> KmodBackend::AskNumber(uint64_t number, std::string* path) {
  const uint64_t start = MonotonicNs();
  char name[PPC_NAME_MAX_BYTES];
  ppc_file request{};
  request.file_id = number;
  request.name = reinterpret_cast<uintptr_t>(name);
  request.name_bytes = sizeof(name);
  const int code = loader_.Call(PPC_IOC_FILE, &request);
  if (MonotonicNs() - start >= kSlowNs) RenewLease();
  if (code != 0) return PosixError("file number " + std::to_string(number), code);
  request.file_id = number;
  if (path != nullptr) path->assign(name, strnlen(name, sizeof(name)));
  return FromKernel(request);
}

Result<FileInfo> KmodBackend::AskPath(const std::string& path) const {
  if (path.size() >= PPC_NAME_MAX_BYTES) return PosixError("look up a path", ENAMETOOLONG);
  Result<FileInfo> info = LookupPlain(path);
  if (info || info.error().code != ELOOP) return info;
  const Result<std::string> target = files_.FollowLinks(path);
  if (!target) return target.error();
  return LookupPlain(*target);
}

Result<FileInfo> KmodBackend::LookupPlain(const std::string& path) const {
  ppc_file request{};
  request.name = reinterpret_cast<uintptr_t>(path.c_str());
  request.name_bytes = static_cast<uint32_t>(path.size() + 1);
  const int code = loader_.Call(PPC_IOC_LOOKUP, &request);
  if (code != 0) return PosixError("look up " + path + " in " + files_.root(), code);
  return FromKernel(request);
}

Result<LoadResult> KmodBackend::Load(const LoadRequest& request) {
  return numbers_.WithCurrentNumber(request.file,
                                    [&](uint64_t number) { return LoadNumber(number, request); });
}

Result<LoadResult> KmodBackend::LoadNumber(uint64_t number, const LoadRequest& request) {
  ppc_load load{};
  load.file_id = number;
  load.offset = request.offset;
  load.length = request.length;
  load.flags = PPC_LOAD_WAIT;
  load.charge = CanCharge() ? request.charge : 0;
  const uint32_t slot = request.group % PPC_CANCEL_SLOTS;
  load.cancel_slot = request.newest == nullptr ? PPC_CANCEL_NONE : slot;
  load.generation = first_generation_ + generations_[slot];
  // After the look at the slot: what is interrupted from here on has a newer one.
  if (request.IsInterrupted()) return LoadResult{.stop = LoadStop::kCancelled};
  int code = 0;
  if (request.charge == load.charge) {
    code = loader_.Call(PPC_IOC_LOAD, &load);
  } else {
    code = charged_.Load(request.charge, &load, request.node);
    if (code == CgroupLoader::kNoAnswer) return LoadResult{.stop = LoadStop::kLater};
    if (code == EBUSY) code = loader_.Call(PPC_IOC_LOAD, &load);
  }
  if (code != 0) return PosixError("load", code);
  return LoadResult{.loaded = load.loaded,
                    .submitted = load.submitted,
                    .resident = load.resident,
                    .failed = load.failed,
                    .done = load.done,
                    .stop = static_cast<LoadStop>(load.stop)};
}

void KmodBackend::Interrupt(uint32_t group) {
  ppc_cancel cancel{};
  cancel.slot = group % PPC_CANCEL_SLOTS;
  cancel.generation = first_generation_ + ++generations_[cancel.slot];
  (void)loader_.Call(PPC_IOC_CANCEL, &cancel);
}

Result<EvictResult> KmodBackend::Evict(const EvictRequest& request) {
  return numbers_.WithCurrentNumber(request.file,
                                    [&](uint64_t number) { return EvictNumber(number, request); });
}

Result<EvictResult> KmodBackend::EvictNumber(uint64_t number, const EvictRequest& request) {
  ppc_evict evict{};
  evict.file_id = number;
  evict.offset = request.offset;
  evict.length = request.length;
  evict.flags = (request.unmap ? PPC_EVICT_UNMAP : 0u) |
                (request.even_locked ? PPC_EVICT_EVEN_LOCKED : 0u) |
                (request.drain ? PPC_EVICT_DRAIN : 0u);
  const int code = loader_.Call(PPC_IOC_EVICT, &evict);
  if (code != 0) return PosixError("evict", code);
  return EvictResult{.asked = evict.asked,
                     .dropped = evict.dropped,
                     .mapped = evict.mapped,
                     .dirty = evict.dirty,
                     .locked = evict.locked,
                     .busy = evict.busy};
}

Result<Residency> KmodBackend::Resident(uint64_t file, uint64_t offset, uint64_t length,
                                        std::span<uint8_t> bitmap) {
  ppc_resident request{};
  // The pages stay when the inode above them goes.
  const Status asked = numbers_.WithCurrentNumber(file, [&](uint64_t number) -> Status {
    request = ppc_resident{};
    request.file_id = number;
    request.offset = offset;
    request.length = length;
    request.bitmap = bitmap.empty() ? 0 : reinterpret_cast<uintptr_t>(bitmap.data());
    request.bitmap_bytes = bitmap.size();
    const int code = loader_.Call(PPC_IOC_RESIDENT, &request);
    if (code != 0) return PosixError("residency", code);
    return Ok();
  });
  if (!asked) return asked.error();
  Residency out{.resident = request.resident, .dirty = request.dirty, .mapped = request.mapped};
  static_assert(kMaxNodes == PPC_MAX_NODES);
  std::copy_n(request.node, kMaxNodes, out.node);
  return out;
}

Result<uint32_t> KmodBackend::Charge(int cgroup_fd) {
  if (!CanCharge()) return charged_.Open(cgroup_fd, loader_.fd());
  ppc_charge charge{};
  charge.cgroup_fd = cgroup_fd;
  const int code = loader_.Call(PPC_IOC_CHARGE, &charge);
  if (code != 0) return PosixError("charge a cgroup", code);
  return charge.handle;
}

void KmodBackend::Uncharge(uint32_t handle) {
  if (!CanCharge()) return charged_.Close(handle);
  ppc_charge charge{};
  charge.flags = PPC_CHARGE_RELEASE;
  charge.handle = handle;
  (void)loader_.Call(PPC_IOC_CHARGE, &charge);
}

Result<size_t> KmodBackend::Read(const std::string& path, uint64_t offset,
                                 std::span<uint8_t> buffer) {
  return files_.Read(path, offset, buffer);
}

Status KmodBackend::List(const std::string& path, const DirEntry& entry) {
  return files_.List(path, entry);
}

Result<BackendCounters> KmodBackend::Counters() {
  // Through the event descriptor: this also renews the lease.
  const Result<ppc_info> info = events_.Info();
  if (!info) return info.error();
  return BackendCounters{.events_queued = info->events_queued,
                         .events_lost = info->events_dropped,
                         .events_coalesced = info->events_coalesced,
                         .wakeups = info->wakeups,
                         .lease_expiries = info->lease_expiries,
                         .attached = (info->state & PPC_STATE_ATTACHED) != 0,
                         .expired = (info->state & PPC_STATE_EXPIRED) != 0,
                         .window_bytes = info->window_bytes,
                         .beacon_bytes = info->beacon_bytes};
}

}  // namespace ppc
