// SPDX-License-Identifier: Apache-2.0
// What ppcd lends runners to note where services are.
#include <signal.h>

#include <filesystem>

#include "tests/unit/supervisor/daemon_fixture.h"

namespace ppc::control {
namespace {

class CheckpointsTest : public DaemonTest {};

// Over a runner's death and ppcd's own; not over a new registration.
TEST_F(CheckpointsTest, TheyOutliveRunners) {
  const auto notes = [this] {
    std::string all;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(dir_)) {
      if (entry.path().extension() == ".checkpoints") all += ReadText(entry.path());
    }
    return all;
  };
  const auto line_of = [](pid_t pid) { return std::to_string(pid) + "\n"; };
  StartDaemon();
  Register({{"notes", true}});
  const pid_t first = RunnerPid();
  ASSERT_EQ(notes(), line_of(first));
  kill(first, SIGKILL);
  ASSERT_TRUE(Eventually([&] { return StateOf() == "running" && RunnerPid() != first; }));
  const pid_t second = RunnerPid();
  ASSERT_EQ(notes(), line_of(first) + line_of(second));
  StopDaemon(SIGKILL);
  StartDaemon();
  ASSERT_TRUE(WaitForState("running"));
  const std::string three = line_of(first) + line_of(second) + line_of(RunnerPid());
  ASSERT_EQ(notes(), three);
  Ask({{"op", "rm_policy"}, {"mount", kMount}});
  EXPECT_EQ(notes(), "");
  Register({{"notes", true}});
  EXPECT_EQ(notes(), line_of(RunnerPid()));
}

}  // namespace
}  // namespace ppc::control
