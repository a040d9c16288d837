// SPDX-License-Identifier: Apache-2.0
// Owns the struct ppc_context a policy gets: checks its arguments (a policy may be
// wrong) and passes calls on to HostServices.
// Threads: the executor's; LogMessage and what ppc_context allows to work() of background() by any.
#ifndef PPC_DAEMON_POLICY_POLICY_CONTEXT_H_
#define PPC_DAEMON_POLICY_POLICY_CONTEXT_H_

#include <ppc.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>

namespace ppc {

// Owns what a policy may ask the runtime (behind struct ppc_context).
// Threads: the executor's, from within hooks; what ppc_context allows to work() of background()
// also its thread at the same time.
//
// Results as in ppc.h: 0 or a negative errno.
class HostServices {
 public:
  virtual ~HostServices() = default;
  virtual void LogMessage(int level, const char* message) = 0;
  virtual uint64_t NowNs() = 0;
  virtual int Want(uint32_t want, uint64_t beacon_bytes) = 0;
  virtual int Memory(uint32_t service, ppc_memory* out) = 0;
  virtual int FileInfoOf(const char* path, ppc_file_info* out) = 0;
  virtual int FilePathOf(uint64_t file, char* buffer, size_t bytes) = 0;
  virtual int ResidentOf(uint64_t file, uint64_t offset, uint64_t size, ppc_residency* out,
                         uint8_t* bitmap, size_t bitmap_bytes) = 0;
  virtual int64_t ReadFileAt(const char* path, uint64_t offset, void* buffer, size_t size) = 0;
  virtual int XpuNode(int32_t xpu) = 0;
  virtual int XpuOfProcess(int32_t pid, uint64_t start_ns) = 0;
  virtual void Interrupt(uint32_t group) = 0;
  virtual void InterruptOf(uint32_t service, uint32_t group) = 0;
  virtual int FileNative(uint64_t file, bool native) = 0;
  virtual void Stat(const char* name, uint64_t value) = 0;
  virtual void Trace(const char* json) = 0;
  virtual int ListDir(const char*, int (*)(void*, const char*, char), void*) { return -ENOSYS; }
  virtual int Background(void (*)(void*), void (*)(void*), void*) { return -ENOSYS; }
  virtual uint64_t GroupUsed(uint32_t) { return 0; }
  virtual int UseLimit(uint32_t, bool) { return -ENOSYS; }
  virtual int BackgroundRemote(void (*)(void*), void (*)(void*), void*) { return -ENOSYS; }
};

// Strings and numbers of struct ppc_context.
struct ContextFacts {
  std::string config = "{}";
  std::string mount;
  std::string template_dir;
  uint32_t caps = 0;
  int nr_nodes = 1;
  int nr_xpus = 0;
  uint64_t window_bytes = 0;
  uint64_t beacon_bytes = 0;
};

class PolicyContext {
 public:
  // services must outlive this.
  PolicyContext(ContextFacts facts, HostServices* services);
  PolicyContext(const PolicyContext&) = delete;
  PolicyContext& operator=(const PolicyContext&) = delete;
  ~PolicyContext() = default;

  ppc_context* Get() { return &context_; }
  HostServices* services() { return services_; }

  // What the policy itself said last at error level; "" nothing.  The reason of a refusal.
  std::string last_error() const;
  void LogMessage(int level, const char* message);

 private:
  const ContextFacts facts_;
  HostServices* const services_;
  mutable std::mutex mutex_;
  std::string last_error_;  // under mutex_
  ppc_context context_{};
};

}  // namespace ppc

#endif  // PPC_DAEMON_POLICY_POLICY_CONTEXT_H_
