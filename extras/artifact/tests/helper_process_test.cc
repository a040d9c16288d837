// SPDX-License-Identifier: Apache-2.0
#include "extras/artifact/helper_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

namespace ppc::artifact {
namespace {

using Lines = std::vector<std::string>;

Lines Hang() {
  while (true) pause();
}

TEST(HelperProcessTest, TellsWhatItsBodyReturned) {
  Lines lines = {"one", "a line\nbroken", std::string(100'000, 'x')};
  Result<HelperProcess> helper = HelperProcess::Start([&] { return lines; });
  ASSERT_TRUE(helper);
  const Result<Lines> told = helper->Wait(-1);
  ASSERT_TRUE(told);
  EXPECT_EQ(*told, lines);
  Result<HelperProcess> quiet = HelperProcess::Start([] { return Lines(); });
  ASSERT_TRUE(quiet);
  const Result<Lines> nothing = quiet->Wait(-1);
  ASSERT_TRUE(nothing);
  EXPECT_TRUE(nothing->empty());
}

TEST(HelperProcessTest, IsNotWaitedForBeyondTheLimit) {
  Result<HelperProcess> helper = HelperProcess::Start(Hang);
  ASSERT_TRUE(helper);
  const Result<Lines> none = helper->Wait(20);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ETIMEDOUT);
}

TEST(HelperProcessTest, GivenUpEndsTheWait) {
  Result<HelperProcess> helper = HelperProcess::Start(Hang);
  ASSERT_TRUE(helper);
  std::thread waiter([&helper] {
    const Result<Lines> none = helper->Wait(-1);
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().code, EPIPE);
  });
  helper->GiveUp();
  waiter.join();
}

TEST(HelperProcessTest, ThatDiesIsNoticed) {
  Result<HelperProcess> helper = HelperProcess::Start([] {
    raise(SIGKILL);
    return Lines();
  });
  ASSERT_TRUE(helper);
  const Result<Lines> none = helper->Wait(-1);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, EPIPE);
}

// A reader of our output sees its end in spite of it.
TEST(HelperProcessTest, KeepsNoDescriptorOfOurs) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  Result<HelperProcess> helper = HelperProcess::Start(Hang);
  ASSERT_TRUE(helper);
  close(ends[1]);
  pollfd waiting{ends[0], POLLIN, 0};
  EXPECT_EQ(poll(&waiting, 1, 30'000), 1);
  EXPECT_EQ(waiting.revents, POLLHUP);
  close(ends[0]);
}

}  // namespace
}  // namespace ppc::artifact
