// SPDX-License-Identifier: Apache-2.0
#include "extras/artifact/helper_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "tests/unit/has.h"

namespace ppc::artifact {
namespace {

using Lines = std::vector<std::string>;

Lines Hang() {
  while (true) pause();
}

TEST(HelperProcessTest, TellsWhatItsBodyReturned) {
  Lines lines = {"one", "a line\nbroken", std::string(100'000, 'x')};
  EXPECT_EQ(Value(Value(HelperProcess::Start([&] { return lines; })).Wait(-1)), lines);
  EXPECT_TRUE(Value(Value(HelperProcess::Start([] { return Lines(); })).Wait(-1)).empty());
}

TEST(HelperProcessTest, IsNotWaitedForBeyondTheLimit) {
  HelperProcess helper = Value(HelperProcess::Start(Hang));
  ExpectError(helper.Wait(20), ETIMEDOUT);
}

TEST(HelperProcessTest, GivenUpEndsTheWait) {
  Result<HelperProcess> helper = HelperProcess::Start(Hang);
  ASSERT_TRUE(helper);
  std::thread waiter([&helper] { ExpectError(helper->Wait(-1), EPIPE); });
  helper->GiveUp();
  waiter.join();
}

TEST(HelperProcessTest, ThatDiesIsNoticed) {
  Result<HelperProcess> helper = HelperProcess::Start([] {
    raise(SIGKILL);
    return Lines();
  });
  ASSERT_TRUE(helper);
  ExpectError(helper->Wait(-1), EPIPE);
}

// The child does not hold our output open: its reader sees the end.
TEST(HelperProcessTest, KeepsNoDescriptorOfOurs) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  ASSERT_TRUE(IsOk(HelperProcess::Start(Hang)));
  close(ends[1]);
  pollfd waiting{ends[0], POLLIN, 0};
  EXPECT_EQ(poll(&waiting, 1, 30'000), 1);
  EXPECT_EQ(waiting.revents, POLLHUP);
  close(ends[0]);
}

}  // namespace
}  // namespace ppc::artifact
