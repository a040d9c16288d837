// SPDX-License-Identifier: Apache-2.0
// A host for policies without daemon, module or root: loads a policy library
// through include/ppc.h alone and gives it a context whose files, memory and
// clock the test sets.  One thread; what the policy gives to background() waits for RunBackground.
#ifndef TESTS_POLICY_FAKE_HOST_H_
#define TESTS_POLICY_FAKE_HOST_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ppc.h"

namespace ppc::test {

// dlopen with the checks that the runner makes first.
class PolicyLibrary {
 public:
  explicit PolicyLibrary(const std::string& path);
  ~PolicyLibrary();
  PolicyLibrary(const PolicyLibrary&) = delete;
  PolicyLibrary& operator=(const PolicyLibrary&) = delete;
  ppc_operation* ops() const { return ops_; }
  uint32_t abi() const { return abi_; }

 private:
  void* handle_ = nullptr;
  ppc_operation* ops_ = nullptr;
  uint32_t abi_ = 0;
};

// Path of a policy of this build.
std::string PolicyPath(const std::string& name);

struct FakeFile {
  std::string path;
  uint64_t size = 0;
  int64_t mtime_ns = 1;
  std::string head;  // first bytes; the rest reads as zeros
};

class FakeHost {
 public:
  FakeHost();
  virtual ~FakeHost() = default;
  FakeHost(const FakeHost&) = delete;
  FakeHost& operator=(const FakeHost&) = delete;

  // Returns the file's number.
  uint64_t AddFile(const std::string& path, uint64_t size, const std::string& head = "");
  // Directory for templates; removed with the host when it was made by it.
  void SetConfig(const nlohmann::json& config) { config_text_ = config.dump(); }
  ppc_context* context();

  // Does what the policy gave to background() and background_remote(), as the runtime does between
  // two hooks; how many.
  size_t RunBackground(size_t most = ~size_t{0});

  miss_io Event(uint32_t kind, uint64_t file, uint64_t offset, uint64_t size, int pid = 100);

  std::map<uint64_t, FakeFile> files;
  std::map<std::string, uint64_t> links;  // other names of files
  uint64_t now_ns = 1'000'000'000;
  ppc_memory memory = {};
  std::vector<int> xpu_nodes = {0, 1};
  int nr_nodes = 2;
  uint32_t caps = PPC_CAN_UNMAP | PPC_CAN_PROGRESS | PPC_CAN_TRACE | PPC_CAN_CHARGE | PPC_CAN_NODE |
                  PPC_IS_TRACED;
  std::string template_dir;

  // What the policy did.
  uint32_t want = ~0u;
  uint64_t beacon_bytes = 4 << 20;
  uint64_t window_bytes = 1 << 20;
  std::vector<std::string> log;
  std::vector<std::string> traces;
  std::map<std::string, uint64_t> stats;
  std::vector<uint32_t> interrupts;
  std::vector<uint32_t> services = {0, 1};  // numbers: the mount itself and those that were started
  std::map<uint64_t, int> native;
  uint64_t reads = 0;
  bool uses_limit = false;                      // ppc_context.use_limit
  bool is_closing = false;                      // no background() any more: ppc_exit comes next
  std::atomic<int> late_answers{0};             // so many of the next files are looked up too late
  std::map<uint64_t, ppc_residency> residency;  // what ppc_context.resident answers
  uint64_t most_looked = 0;                     // the most bytes that it was asked of at once

  struct BackgroundWork {
    void (*work)(void* arg);
    void (*done)(void* arg);
    void* arg;
  };
  std::deque<BackgroundWork> background;  // not done yet
  bool is_background_held = false;        // nor for a while
  std::deque<BackgroundWork> remote;      // the same of background_remote()
  bool is_remote_silent = false;          // nothing of that comes back

  // As ppc_context.resident.
  virtual void FindResident(uint64_t file, uint64_t offset, uint64_t size, uint8_t* bitmap,
                            size_t bytes, ppc_residency* out) {
    (void)offset, (void)bitmap, (void)bytes;
    most_looked = std::max(most_looked, size);
    *out = residency[file];
  }
  virtual void Interrupted(uint32_t service, uint32_t group) {
    (void)service;
    interrupts.push_back(group);
  }

 private:
  ppc_context context_ = {};
  std::string config_text_ = "{}";
};

// A host with its policy.
class HostedPolicy : public FakeHost {
 public:
  explicit HostedPolicy(const std::string& path) : library_(path) {}
  ~HostedPolicy() override;
  // Calls ppc_init; call after files, config and template_dir are set.
  virtual int Init();
  // Ends the policy if it is there.
  int Exit();
  // Null if the policy has no answer.
  virtual nlohmann::json Control(const nlohmann::json& message);
  ppc_operation& ops() const { return *library_.ops(); }
  uint32_t abi() const { return library_.abi(); }

 private:
  const PolicyLibrary library_;
  bool is_there_ = false;
};

}  // namespace ppc::test

#endif  // TESTS_POLICY_FAKE_HOST_H_
