// SPDX-License-Identifier: Apache-2.0
// A process that does not answer keeps one thread, and no other.
#include "daemon/backend/observer/mappers.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "daemon/base/clock.h"
#include "daemon/base/unique_fd.h"
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
}  // namespace ppc
