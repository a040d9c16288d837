// SPDX-License-Identifier: Apache-2.0
// Several runners on one machine.
#include <string>

#include "tests/unit/supervisor/daemon_fixture.h"
#include "tests/unit/units.h"

namespace ppc::control {
namespace {

class MemoryTest : public DaemonTest {
 protected:
  void SetUp() override {
    DaemonTest::SetUp();
    StartDaemon();
  }
};

// What the lines of a runner's log say it may keep, the last one; 0: nothing is shared.
TEST_F(MemoryTest, RunnersShareTheMemory) {
  const auto share_of = [this](const std::string& log) -> uint64_t {
    const std::string text = ReadText(dir_ + "/" + log);
    const size_t line = text.rfind("\"op\":\"memory\"");
    if (line == std::string::npos) return 0;
    const size_t begin = text.rfind('{', line);
    const Json message = Json::parse(text.substr(begin, text.find('\n', begin) - begin));
    return message.value("share", uint64_t{0});
  };
  const auto fake = [this](const std::string& log) {
    return Json{{"memory", {{"budget", 90 * kMiB}, {"wants", 90 * kMiB}}},
                {"log", dir_ + "/" + log}};
  };
  ASSERT_TRUE(Register(fake("one")).value("ok", false));
  EXPECT_EQ(share_of("one"), 0u) << "alone";
  ASSERT_TRUE(Register(fake("two"), "alpha", kOtherMount).value("ok", false));
  EXPECT_TRUE(Eventually([&] { return share_of("one") + share_of("two") == 90 * kMiB; }));
  EXPECT_EQ(share_of("one"), 45 * kMiB);
  const std::string two = ReadText(dir_ + "/two");
  EXPECT_NE(two.find("\"memory_share\":0"), std::string::npos) << "before it was asked: " << two;
  // The one that is gone leaves it.
  ASSERT_TRUE(Ask({{"op", "rm_policy"}, {"mount", kOtherMount}}).value("ok", false));
  EXPECT_TRUE(Eventually([&] { return share_of("one") == 0; }));
}

}  // namespace
}  // namespace ppc::control
