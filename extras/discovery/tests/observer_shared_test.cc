// SPDX-License-Identifier: Apache-2.0
// Directories of one set of programs with more files than are listed.
#include <bpf/bpf.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <set>
#include <string>

#include "tests/unit/backend/observer_below_fixture.h"

namespace ppc {
namespace {

using DiscoveredSharedTest = ObserverSharedTest;
using DiscoveredBelowTest = ObserverBelowTest;

// However many files a process reads: what the kernel lists of a directory has a bound.
TEST_F(DiscoveredSharedTest, TheKernelsListDoesNotGrow) {
  const std::string dir = Make("many");
  constexpr int kMany = 600;
  for (int i = 0; i < kMany; ++i) {
    const UniqueFd fd(open((dir + "/" + std::to_string(i)).c_str(), O_CREAT | O_RDWR, 0644));
    ASSERT_EQ(ftruncate(fd.Get(), 4096), 0);
  }
  const Attacher attacher(set_.get());
  const uint32_t number = *set_->AddDirectory();
  const auto backend = Observe(dir, number, {.listed = 16, .in_kernel = 32});
  ASSERT_TRUE(backend->Attach({}));
  const ObserverFds fds = Value(set_->Share(number));
  const auto listed = [&] {
    size_t count = 0;
    obs_inode_key key{};
    const obs_inode_key* from = nullptr;
    obs_inode inode{};
    const int map = fds[kObsFdInodes].Get();
    while (bpf_map_get_next_key(map, from, &key) == 0) {
      from = &key;
      if (bpf_map_lookup_elem(map, &key, &inode) == 0 && inode.dir == number) ++count;
    }
    return count;
  };
  EXPECT_EQ(listed(), 16u);
  std::set<uint64_t> discovered;
  std::array<Event, 256> batch;
  for (int i = 0; i < kMany; i += 50) {
    const std::string command = "cd '" + dir + "' && cat $(seq " + std::to_string(i) + " " +
                                std::to_string(i + 49) + ") >/dev/null";
    ASSERT_EQ(std::system(command.c_str()), 0);
    while (const size_t got = backend->Drain(batch)) {
      for (size_t at = 0; at < got; ++at) {
        if (backend->Resolve(batch[at].file, nullptr)) discovered.insert(batch[at].file);
      }
    }
    EXPECT_LE(listed(), 48u) << i;
  }
  if (discovered.empty()) GTEST_SKIP() << "this file system opens no files by number";
  EXPECT_GT(discovered.size(), kMany * 9u / 10);
  EXPECT_GT(listed(), 40u);
}

TEST_F(DiscoveredBelowTest, DiscoveredFilesAreTheInnermostsToo) {
  for (const char* const name : {"a", "b", "c"}) Make(std::string("outer/inner/") + name);
  const ObserverFiles::Limits few{.listed = 1, .in_kernel = 16};
  const auto outer = Register(outer_, few);
  const auto inner = Register(inner_, few);
  // The outer one notices some time later.
  EXPECT_TRUE(Eventually([&] {
    ReadCold(inner_);
    return Misses(inner.get()) > 0 && Misses(outer.get()) == 0;
  }));
  for (const char* const name : {"a", "b", "c"}) {
    ReadCold(inner_ + "/" + name);
    std::array<Event, 512> batch;
    // Numbers that were not looked up yet: the runtime does, and drops those that are not ours.
    for (ObserverBackend* const backend : {outer.get(), inner.get()}) {
      const size_t got = backend->Drain(batch);
      for (size_t i = 0; i < got; ++i) {
        const Result<FileInfo> info = backend->Resolve(batch[i].file, nullptr);
        EXPECT_EQ(info.ok(), backend == inner.get()) << name;
      }
      if (backend == inner.get()) {
        EXPECT_GT(got, 0u) << name;
      }
    }
    ReadCold(inner_ + "/" + name);
    EXPECT_GT(Misses(inner.get()), 0u) << name;
    EXPECT_EQ(Misses(outer.get()), 0u) << name;
  }
}

}  // namespace
}  // namespace ppc
