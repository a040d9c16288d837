// SPDX-License-Identifier: Apache-2.0
#include "daemon/policy/policy_context.h"

#include <cerrno>
#include <utility>

namespace ppc {
namespace {

constexpr uint32_t kAllWants =
    PPC_WANT_MANAGED_RA | PPC_WANT_PROGRESS | PPC_WANT_TRACE | PPC_WANT_OPENCLOSE | PPC_WANT_EVICT;

PolicyContext* Context(const ppc_context* context) {
  return static_cast<PolicyContext*>(context->host);
}

HostServices* Host(const ppc_context* context) { return Context(context)->services(); }

void LogCall(const ppc_context* context, int level, const char* message) {
  if (message != nullptr) Context(context)->LogMessage(level, message);
}

uint64_t NowCall(const ppc_context* context) { return Host(context)->NowNs(); }

int WantCall(const ppc_context* context, uint32_t want, uint64_t beacon_bytes) {
  if ((want & ~kAllWants) != 0) return -EINVAL;
  return Host(context)->Want(want, beacon_bytes);
}

int MemoryCall(const ppc_context* context, uint32_t service, ppc_memory* out) {
  return out == nullptr ? -EINVAL : Host(context)->Memory(service, out);
}

int FileInfoCall(const ppc_context* context, const char* path, ppc_file_info* out) {
  if (path == nullptr || out == nullptr) return -EINVAL;
  return Host(context)->FileInfoOf(path, out);
}

int FilePathCall(const ppc_context* context, uint64_t file, char* buffer, size_t bytes) {
  if (buffer == nullptr || bytes == 0) return -EINVAL;
  return Host(context)->FilePathOf(file, buffer, bytes);
}

int ResidentCall(const ppc_context* context, uint64_t file, uint64_t offset, uint64_t size,
                 ppc_residency* out, uint8_t* bitmap, size_t bitmap_bytes) {
  if (out == nullptr) return -EINVAL;
  return Host(context)->ResidentOf(file, offset, size, out, bitmap, bitmap_bytes);
}

int64_t ReadCall(const ppc_context* context, const char* path, uint64_t offset, void* buffer,
                 size_t size) {
  if (path == nullptr || buffer == nullptr) return -EINVAL;
  return Host(context)->ReadFileAt(path, offset, buffer, size);
}

int XpuNodeCall(const ppc_context* context, int32_t xpu) { return Host(context)->XpuNode(xpu); }

int ProcessXpuCall(const ppc_context* context, int32_t pid, uint64_t start_ns) {
  return Host(context)->XpuOfProcess(pid, start_ns);
}

void InterruptCall(const ppc_context* context, uint32_t group) { Host(context)->Interrupt(group); }

void InterruptOfCall(const ppc_context* context, uint32_t service, uint32_t group) {
  Host(context)->InterruptOf(service, group);
}

int FileNativeCall(const ppc_context* context, uint64_t file, int native) {
  return Host(context)->FileNative(file, native != 0);
}

void StatCall(const ppc_context* context, const char* name, uint64_t value) {
  if (name != nullptr) Host(context)->Stat(name, value);
}

void TraceCall(const ppc_context* context, const char* json) {
  if (json != nullptr) Host(context)->Trace(json);
}

int ListDirCall(const ppc_context* context, const char* path,
                int (*entry)(void*, const char*, char), void* arg) {
  if (path == nullptr || entry == nullptr) return -EINVAL;
  return Host(context)->ListDir(path, entry, arg);
}

int BackgroundCall(const ppc_context* context, void (*work)(void*), void (*done)(void*),
                   void* arg) {
  if (work == nullptr) return -EINVAL;
  return Host(context)->Background(work, done, arg);
}

int BackgroundRemoteCall(const ppc_context* context, void (*work)(void*), void (*done)(void*),
                         void* arg) {
  if (work == nullptr) return -EINVAL;
  return Host(context)->BackgroundRemote(work, done, arg);
}

uint64_t GroupUsedCall(const ppc_context* context, uint32_t service) {
  return Host(context)->GroupUsed(service);
}

int UseLimitCall(const ppc_context* context, uint32_t service, int on) {
  return Host(context)->UseLimit(service, on != 0);
}

}  // namespace

PolicyContext::PolicyContext(ContextFacts facts, HostServices* services)
    : facts_(std::move(facts)), services_(services) {
  context_.size = sizeof(context_);
  context_.caps = facts_.caps;
  context_.config = facts_.config.c_str();
  context_.mount = facts_.mount.c_str();
  context_.template_dir = facts_.template_dir.c_str();
  context_.nr_nodes = facts_.nr_nodes;
  context_.nr_xpus = facts_.nr_xpus;
  context_.window_bytes = facts_.window_bytes;
  context_.beacon_bytes = facts_.beacon_bytes;
  context_.host = this;
  context_.log = LogCall;
  context_.now_ns = NowCall;
  context_.want = WantCall;
  context_.memory = MemoryCall;
  context_.file_info = FileInfoCall;
  context_.file_path = FilePathCall;
  context_.resident = ResidentCall;
  context_.read = ReadCall;
  context_.xpu_node = XpuNodeCall;
  context_.process_xpu = ProcessXpuCall;
  context_.interrupt = InterruptCall;
  context_.file_native = FileNativeCall;
  context_.stat = StatCall;
  context_.trace = TraceCall;
  context_.list_dir = ListDirCall;
  context_.interrupt_of = InterruptOfCall;
  context_.background = BackgroundCall;
  context_.background_remote = BackgroundRemoteCall;
  context_.group_used = GroupUsedCall;
  context_.use_limit = UseLimitCall;
}

std::string PolicyContext::last_error() const {
  const std::lock_guard lock(mutex_);
  return last_error_;
}

void PolicyContext::LogMessage(int level, const char* message) {
  if (level <= PPC_LOG_ERROR) {
    const std::lock_guard lock(mutex_);
    last_error_ = message;
  }
  services_->LogMessage(level, message);
}

}  // namespace ppc
