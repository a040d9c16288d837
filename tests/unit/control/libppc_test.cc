// SPDX-License-Identifier: Apache-2.0
// Runs the C program of libppc_test.c in its three situations.
#include "daemon/control/listen_socket.h"
#include "tests/unit/control/daemon_fixture.h"

namespace ppc::control {
namespace {

class LibppcTest : public DaemonTest {
 protected:
  int RunC(const char* situation) {
    return RunProcess({std::string(PPC_TEST_BIN_DIR) + "/ppc-libppc-test", situation}, environment_)
        .exit_status;
  }
};

TEST_F(LibppcTest, WorksFromC) {
  StartDaemon();
  EXPECT_EQ(RunC("with"), 0) << "line of libppc_test.c, plus 1, modulo 250";
}

TEST_F(LibppcTest, ReportsAnAbsentDaemon) { EXPECT_EQ(RunC("without"), 0); }

TEST_F(LibppcTest, TimesOut) {
  const Result<ListenSocket> mute = OpenListenSocket(socket_, "");
  ASSERT_TRUE(mute) << mute.error().message;
  EXPECT_EQ(RunC("mute"), 0);
}

}  // namespace
}  // namespace ppc::control
