// SPDX-License-Identifier: Apache-2.0
// Parts of the observer: who maps a file, the programs.
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "daemon/backend/observer/mappers.h"
#include "daemon/backend/observer/program_set.h"
#include "daemon/base/clock.h"
#include "daemon/base/unique_fd.h"
#include "daemon/machine/roots.h"
#include "tests/unit/has.h"
#include "tests/unit/temp_tree.h"

namespace ppc {
namespace {

constexpr uint64_t kLength = 1 << 20;
constexpr const char* kLine = "10000-20000 r--s 00000000 00:07 11   /models/m\n";

class MappersTest : public testing::Test {
 protected:
  // A process whose maps are a FIFO hangs until the test has opened it.
  void AddHung(pid_t pid) {
    const std::string name = "/" + std::to_string(pid) + "/maps";
    tree_.Write("/" + std::to_string(pid) + "/stat", "");
    ASSERT_EQ(mkfifo(tree_.Path(name).c_str(), 0600), 0);
    mappers_.Note(pid, now_ns_);
  }
  void AddLive(pid_t pid) {
    tree_.Write("/" + std::to_string(pid) + "/maps", kLine);
    mappers_.Note(pid, now_ns_);
  }
  // Opens once a thread reads the maps.
  UniqueFd Writer(pid_t pid) {
    return UniqueFd(
        open(tree_.Path("/" + std::to_string(pid) + "/maps").c_str(), O_WRONLY | O_CLOEXEC));
  }
  std::vector<pid_t> Of() {
    const Mappers::Visit visit(&mappers_);
    std::vector<pid_t> pids;
    for (const MappedPart& part : mappers_.Of(visit, file_, 0, kLength, now_ns_))
      pids.push_back(part.pid);
    return pids;
  }

  TempTree tree_;
  uint64_t now_ns_ = 1000 * kNsPerMs;
  ObserverFiles::Identity file_{.dev = 7, .ino = 11, .name = "m"};
  Mappers mappers_{tree_.Path(""), 20 * kNsPerMs};
};

TEST_F(MappersTest, WhoNotesWaitsForNoProcess) {
  AddHung(7);
  AddLive(8);
  std::jthread reader([this] { (void)Of(); });
  const UniqueFd held = Writer(7);
  ASSERT_TRUE(held.IsValid());
  mappers_.Note(9, now_ns_);  // returns though 7 does not answer
  AddLive(10);
  const std::vector<pid_t> known = Of();
  EXPECT_NE(std::ranges::find(known, 10), known.end());
}

TEST_F(MappersTest, SomeThreadsStayOutOfProcessesThatHang) {
  std::array<std::unique_ptr<Mappers::Visit>, Mappers::kMostInside> inside;
  for (auto& visit : inside) {
    visit = std::make_unique<Mappers::Visit>(&mappers_);
    EXPECT_TRUE(visit->IsInside());
  }
  AddHung(7);
  const Mappers::Visit late(&mappers_);
  EXPECT_FALSE(late.IsInside());
  EXPECT_TRUE(mappers_.Of(late, file_, 0, kLength, now_ns_).empty()) << "and reads none";
  inside[0].reset();
  EXPECT_TRUE(Mappers::Visit(&mappers_).IsInside());
}

// Two that evict at once: the second must not take a process for one that maps nothing.
TEST_F(MappersTest, WhatAnotherThreadIsReadingIsWaitedFor) {
  Mappers patient(tree_.Path(""), 60'000 * kNsPerMs);
  AddHung(7);
  patient.Note(7, now_ns_);
  const auto parts_of = [&] {
    const Mappers::Visit visit(&patient);
    return patient.Of(visit, file_, 0, kLength, now_ns_).size();
  };
  size_t first = 0;
  std::jthread reader([&] { first = parts_of(); });
  UniqueFd answer = Writer(7);
  size_t second = 0;
  std::jthread other([&] { second = parts_of(); });
  const std::string line = kLine;
  ASSERT_EQ(write(answer.Get(), line.data(), line.size()), static_cast<ssize_t>(line.size()));
  answer.Reset();
  reader.join();
  other.join();
  EXPECT_EQ(first, 1u);
  EXPECT_EQ(second, 1u);
}

}  // namespace

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
  for (const ObserverFd which : {kObsFdReaders, kObsFdReported}) {
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
