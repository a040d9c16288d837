// SPDX-License-Identifier: Apache-2.0
// What loading the observer's programs asks of the kernel.
#include "daemon/backend/observer/program_set.h"

#include <bpf/bpf.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "daemon/base/unique_fd.h"
#include "daemon/machine/roots.h"

namespace ppc {
namespace {

// Instructions that the verifier followed, by program, of those loaded last; empty: not told.
std::map<std::string, uint32_t> Verified() {
  std::map<std::string, uint32_t> verified;
  for (uint32_t id = 0; bpf_prog_get_next_id(id, &id) == 0;) {
    const UniqueFd program(bpf_prog_get_fd_by_id(id));
    bpf_prog_info info{};
    uint32_t bytes = sizeof(info);
    if (!program.IsValid() || bpf_obj_get_info_by_fd(program.Get(), &info, &bytes) != 0) continue;
    if (info.verified_insns != 0) verified[info.name] = info.verified_insns;
  }
  return verified;
}

// A private ppcd loads them while its command reads: what they do for each directory is followed
// once, not kObsMaxDirs times.
TEST(ObserverProgramSetTest, TheVerifierFollowsADirectoryOnce) {
  const auto set = ObserverProgramSet::Load(RootsFromEnvironment());
  if (!set) GTEST_SKIP() << set.error().message;
  const std::map<std::string, uint32_t> verified = Verified();
  if (!verified.contains("on_insert")) GTEST_SKIP() << "this kernel does not tell";
  EXPECT_LT(verified.at("on_insert"), 28'000u);  // 36,000 and more when each is followed
  const auto on_exec = verified.find("on_exec");
  EXPECT_LT(on_exec == verified.end() ? 0 : on_exec->second, 5'000u);
}

}  // namespace
}  // namespace ppc
