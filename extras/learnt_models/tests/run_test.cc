// SPDX-License-Identifier: Apache-2.0
// `ppcctl run` of a command that names no model.
#include "tests/unit/supervisor/run_fixture.h"

namespace ppc::control {
namespace {

using LearnTest = RunTest;

TEST_F(LearnTest, LearnsWhatTheCommandOpens) {
  // The name is put together where no test can read it.
  const std::string script = "d=" + dir_ +
                             "; exec 3<$d/mo'de'l/a.safetensors; sleep 0.5; "
                             "echo \"<$PPC_MOUNT>\"";
  std::ofstream(dir_ + "/load.sh") << script;
  const std::vector<std::string> command = {"--", "/bin/sh", dir_ + "/load.sh"};
  const ProcessResult first = Run(command);
  EXPECT_EQ(first.exit_status, 0);
  EXPECT_EQ(first.out, "<>\n");
  ExpectOneLine(first, model_ + " (20.0 MiB); its next start is accelerated");
  if (!CanMount()) GTEST_SKIP() << "needs the right to mount";
  ExpectRan(RunOnMount(command), 0, "<" + model_ + ">\n", "");
  EXPECT_TRUE(Has(RunnerLog(), "service_start"));
}

}  // namespace
}  // namespace ppc::control
