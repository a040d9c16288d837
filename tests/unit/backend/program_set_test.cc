// SPDX-License-Identifier: Apache-2.0
// What loading the observer's programs asks of the kernel.
#include "daemon/backend/observer/program_set.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "daemon/base/unique_fd.h"
#include "daemon/machine/roots.h"
#include "tests/unit/has.h"

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

// Each CPU that adds an entry takes 128 for itself: with fewer in all the later CPUs push out what
// the others have just added.
TEST(ObserverProgramSetTest, MapsThatForgetHaveRoomForEachCpu) {
  const auto set = ObserverProgramSet::Load(RootsFromEnvironment());
  if (!set) GTEST_SKIP() << set.error().message;
  const auto fds = Value((*set)->Share(*(*set)->AddDirectory()));
  const auto cpus = static_cast<uint32_t>(libbpf_num_possible_cpus());
  for (const ObserverFd which : {kObsFdReaders, kObsFdUnknown}) {
    bpf_map_info info{};
    uint32_t bytes = sizeof(info);
    ASSERT_EQ(bpf_obj_get_info_by_fd(fds[which].Get(), &info, &bytes), 0);
    EXPECT_GE(info.max_entries, 256 * cpus);
  }
}

// What a runner reads of the others it cannot change.
TEST(ObserverProgramSetTest, RunnersCannotWriteWhatIsCounted) {
  const auto set = ObserverProgramSet::Load(RootsFromEnvironment());
  if (!set) GTEST_SKIP() << set.error().message;
  const uint32_t dir = *(*set)->AddDirectory();
  const auto fds = Value((*set)->Share(dir));
  const std::vector<obs_counts> wild(static_cast<size_t>(libbpf_num_possible_cpus()));
  EXPECT_NE(bpf_map_update_elem(fds[kObsFdCounts].Get(), &dir, wild.data(), BPF_ANY), 0);
  const uint32_t zero = 0;
  obs_state state{};
  EXPECT_EQ(bpf_map_lookup_elem(fds[kObsFdState].Get(), &zero, &state), 0);
  EXPECT_NE(bpf_map_update_elem(fds[kObsFdState].Get(), &zero, &state, BPF_ANY), 0);
}

}  // namespace
}  // namespace ppc
