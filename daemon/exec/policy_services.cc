// SPDX-License-Identifier: Apache-2.0
#include "daemon/exec/policy_services.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "daemon/base/files.h"
#include "daemon/base/log.h"

namespace ppc {

Status PolicyServices::OpenTrace(const std::string& path) {
  open_how how{};
  how.flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  how.mode = 0644;
  // Another user's link in a shared directory must not send us elsewhere.
  how.resolve = RESOLVE_NO_SYMLINKS;
  trace_ = OpenAt2(AT_FDCWD, path, how);
  if (!trace_.IsValid()) return PosixError("open trace file " + path, errno);
  struct stat st {};
  if (fstat(trace_.Get(), &st) != 0 || !S_ISREG(st.st_mode) || st.st_nlink != 1 ||
      st.st_uid != geteuid()) {
    trace_.Reset();
    return Error{EPERM, "trace file " + path + " belongs to another user; remove it"};
  }
  return Ok();
}

bool PolicyServices::HasTrace() const {
  const std::lock_guard lock(mutex_);
  return !trace_buffer_.empty();
}

void PolicyServices::FlushTrace() {
  std::string text;
  {
    const std::lock_guard lock(mutex_);
    text.swap(trace_buffer_);
  }
  if (text.empty() || is_trace_broken_) return;
  const Status written = WriteAll(trace_.Get(), text.data(), text.size());
  if (written) return;
  Log(LogLevel::kWarning,
      "nothing is written to the trace file any more: " + written.error().message);
  is_trace_broken_ = true;
}

std::map<std::string, uint64_t> PolicyServices::Stats() const {
  const std::lock_guard lock(mutex_);
  return {stats_.begin(), stats_.end()};
}

void PolicyServices::FillMemory(Service* service, uint64_t age_ns, bool with_cache,
                                ppc_memory* out) {
  const Budget::State& state = parts_.services->Memory(service, age_ns, with_cache);
  *out = ppc_memory{};
  out->limit = state.memory.limit;
  out->used = state.memory.used;
  out->cache = state.memory.cache;
  out->threshold = state.memory.threshold;
  out->room = state.room;
  out->inflight = state.inflight;
  out->demand = parts_.demand->Bytes(parts_.backend->NowNs());
  out->is_cgroup = state.memory.is_cgroup ? 1 : 0;
  out->withheld_pages = static_cast<uint32_t>(state.memory.withheld / kPageBytes);
}

void PolicyServices::LogMessage(int level, const char* message) {
  const int known = level <= PPC_LOG_ERROR     ? PPC_LOG_ERROR
                    : level <= PPC_LOG_WARNING ? PPC_LOG_WARNING
                    : level <= PPC_LOG_INFO    ? PPC_LOG_INFO
                                               : PPC_LOG_DEBUG;
  Log(static_cast<LogLevel>(known), {"", ServiceNamedBy(message)},
      std::string("policy: ") + message);
}

uint64_t PolicyServices::NowNs() { return parts_.backend->NowNs(); }

int PolicyServices::Want(uint32_t want, uint64_t beacon_bytes) {
  const Status done = parts_.want(want, beacon_bytes);
  return done ? 0 : -done.error().code;
}

int PolicyServices::Memory(uint32_t service, ppc_memory* out) {
  FillMemory(parts_.services->Get(service), 0, /*with_cache=*/true, out);
  return 0;
}

uint64_t PolicyServices::GroupUsed(uint32_t service) {
  return parts_.services->Get(service)->memory.memory.group_used;
}

int PolicyServices::UseLimit(uint32_t service, bool on) {
  Service* const its = parts_.services->Get(service);
  if (its->number != service || its->payer == nullptr || its->payer->budget == nullptr)
    return -ENOENT;
  its->payer->budget->SetUsesLimit(on);
  if (parts_.guard != nullptr)
    parts_.guard->SetPasses(GuardSlot(*its), on, parts_.backend->NowNs());
  return 0;
}

int PolicyServices::FileInfoOf(const char* path, ppc_file_info* out) {
  if (!IsCleanPath(path)) return -EINVAL;
  const Result<FileInfo> info = parts_.files->Find(path);
  if (!info) return -info.error().code;
  *out = ppc_file_info{.file = info->file,
                       .size = info->size,
                       .ino = info->ino,
                       .mtime_ns = info->mtime_ns,
                       .dev_major = info->dev_major,
                       .dev_minor = info->dev_minor};
  return 0;
}

int PolicyServices::FilePathOf(uint64_t file, char* buffer, size_t bytes) {
  FileCopy known;
  if (!parts_.files->Copy(file, parts_.backend->NowNs(), &known)) return -ESTALE;
  if (known.path.size() + 1 > bytes) return -ENAMETOOLONG;
  std::memcpy(buffer, known.path.c_str(), known.path.size() + 1);
  return 0;
}

int PolicyServices::ResidentOf(uint64_t file, uint64_t offset, uint64_t size, ppc_residency* out,
                               uint8_t* bitmap, size_t bitmap_bytes) {
  if (offset % kPageBytes != 0 || size > kMaxResident) return -EINVAL;
  const std::span<uint8_t> bits(bitmap, bitmap == nullptr ? 0 : bitmap_bytes);
  const Result<Residency> state = parts_.backend->Resident(file, offset, size, bits);
  if (!state) return -state.error().code;
  *out = ppc_residency{};
  out->resident = state->resident;
  out->dirty = state->dirty;
  out->mapped = state->mapped;
  std::copy_n(state->node, kMaxNodes, out->node);
  return 0;
}

int64_t PolicyServices::ReadFileAt(const char* path, uint64_t offset, void* buffer, size_t size) {
  if (!IsCleanPath(path)) return -EINVAL;
  const Result<size_t> got =
      parts_.backend->Read(path, offset, std::span<uint8_t>(static_cast<uint8_t*>(buffer), size));
  return got ? static_cast<int64_t>(*got) : -got.error().code;
}

int PolicyServices::ListDir(const char* path, int (*entry)(void*, const char*, char), void* arg) {
  if (*path != '\0' && !IsCleanPath(path)) return -EINVAL;
  const Status done = parts_.backend->List(
      path, [&](const char* name, char kind) { return entry(arg, name, kind) == 0; });
  return done ? 0 : -done.error().code;
}

int PolicyServices::Background(void (*work)(void*), void (*done)(void*), void* arg) {
  const Status taken = parts_.background(work, done, arg);
  return taken ? 0 : -taken.error().code;
}

int PolicyServices::BackgroundRemote(void (*work)(void*), void (*done)(void*), void* arg) {
  const Status taken = parts_.background_remote(work, done, arg);
  return taken ? 0 : -taken.error().code;
}

int PolicyServices::XpuNode(int32_t xpu) { return parts_.topology->NodeOfXpu(xpu); }

int PolicyServices::XpuOfProcess(int32_t pid, uint64_t start_ns) {
  const Reader* reader = parts_.services->ReaderOf(pid, start_ns, 0);
  return reader == nullptr ? PPC_NO_XPU : reader->xpu.xpu;
}

void PolicyServices::Interrupt(uint32_t group) { parts_.loader->InterruptAll(group); }

void PolicyServices::InterruptOf(uint32_t service, uint32_t group) {
  if (group >= PPC_MAX_GROUPS) return;
  parts_.loader->Interrupt(parts_.services->Get(service)->number, group);
}

int PolicyServices::FileNative(uint64_t file, bool native) {
  const Status done = parts_.backend->SetFileNative(file, native);
  return done ? 0 : -done.error().code;
}

void PolicyServices::Stat(const char* name, uint64_t value) {
  const std::string_view key(name, strnlen(name, kMaxStatName));
  const std::lock_guard lock(mutex_);
  const auto it = stats_.find(key);
  if (it != stats_.end()) {
    it->second = value;
  } else if (stats_.size() < kMaxStats) {
    stats_.emplace(key, value);
  }
}

void PolicyServices::Trace(const char* json) {
  if (!trace_.IsValid()) return;
  const size_t bytes = strnlen(json, kMaxTraceLine);
  if (bytes == kMaxTraceLine || std::memchr(json, '\n', bytes) != nullptr) return;
  const std::lock_guard lock(mutex_);
  if (trace_buffer_.size() >= kMaxTrace) return;
  trace_buffer_.append(json, bytes);
  trace_buffer_ += '\n';
}

}  // namespace ppc
