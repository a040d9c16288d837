// SPDX-License-Identifier: Apache-2.0
// Owns host services that do nothing, for tests of the policy host alone.
#ifndef PPC_TESTS_UNIT_POLICY_NULL_SERVICES_H_
#define PPC_TESTS_UNIT_POLICY_NULL_SERVICES_H_

#include "daemon/policy/policy_context.h"

namespace ppc {

class NullServices : public HostServices {
 public:
  void LogMessage(int, const char*) override {}
  uint64_t NowNs() override { return 42; }
  int Want(uint32_t want, uint64_t) override {
    last_want = want;
    return 0;
  }
  int Memory(uint32_t, ppc_memory*) override { return 0; }
  int FileInfoOf(const char*, ppc_file_info*) override { return 0; }
  int FilePathOf(uint64_t, char*, size_t) override { return 0; }
  int ResidentOf(uint64_t, uint64_t, uint64_t, ppc_residency*, uint8_t*, size_t) override {
    return 0;
  }
  int64_t ReadFileAt(const char*, uint64_t, void*, size_t) override { return 0; }
  int XpuNode(int32_t) override { return -1; }
  int XpuOfProcess(int32_t, uint64_t) override { return -1; }
  void Interrupt(uint32_t) override {}
  void InterruptOf(uint32_t, uint32_t) override {}
  int FileNative(uint64_t, bool) override { return 0; }
  void Stat(const char*, uint64_t) override {}
  void Trace(const char*) override {}

  uint32_t last_want = 0;
};

}  // namespace ppc

#endif  // PPC_TESTS_UNIT_POLICY_NULL_SERVICES_H_
