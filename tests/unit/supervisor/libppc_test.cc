// SPDX-License-Identifier: Apache-2.0
// Runs the C program of libppc_test.c in its three situations.
#include <poll.h>
#include <ppc/control.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "daemon/base/clock.h"
#include "daemon/wire/listen_socket.h"
#include "tests/unit/supervisor/daemon_fixture.h"

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

// A call that connects anew first to one whose queue is full, then waits for its answer.
TEST_F(LibppcTest, ConnectingAnewIsPartOfTheTimeOut) {
  constexpr unsigned kTimeoutMs = 1500;
  const Result<sockaddr_un> address = SocketAddress(socket_);
  const auto* name = reinterpret_cast<const sockaddr*>(&*address);
  const UniqueFd mute(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(bind(mute.Get(), name, sizeof(*address)), 0);
  ASSERT_EQ(listen(mute.Get(), 0), 0);  // a queue of one
  const RawClient queued(socket_);
  ppc_client* client = nullptr;
  EXPECT_EQ(ppc_connect(socket_.c_str(), kTimeoutMs, &client), -ETIMEDOUT);
  std::thread later([&mute] {
    poll(nullptr, 0, 1200);
    close(accept(mute.Get(), nullptr, nullptr));
  });
  const uint64_t before = MonotonicNs();
  EXPECT_EQ(ppc_request(client, "{\"op\":\"ping\"}"), -ETIMEDOUT);
  EXPECT_LT(MonotonicNs() - before, (kTimeoutMs + 1000) * kNsPerMs);
  later.join();
  ppc_close(client);
}

TEST_F(LibppcTest, TimesOut) {
  const UniqueFd mute = Value(OpenListenSocket(socket_, 0600));
  EXPECT_EQ(RunC("mute"), 0);
}

}  // namespace
}  // namespace ppc::control
