// SPDX-License-Identifier: Apache-2.0
// A ppc-runner and its supervisor's lines.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cstdlib>
#include <memory>
#include <optional>
#include <string>

#include "daemon/runner/line_socket.h"
#include "daemon/wire/exit_codes.h"
#include "daemon/wire/protocol.h"
#include "tests/unit/child.h"
#include "tests/unit/eventually.h"
#include "tests/unit/has.h"
#include "tests/unit/temp_tree.h"

namespace ppc {
namespace {

constexpr int kPatienceMs = 20000;

class SessionTest : public testing::Test {
 protected:
  // With waiting_policy.c on a directory of its own.
  void SetUp() override {
    tree_.Write("/models/a", "weights");
    ASSERT_EQ(mkfifo(fence_.c_str(), 0600), 0);
    int pair[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    pid_ = StartChild([&] {
      setenv("PPC_TEST_FENCE", fence_.c_str(), 1);
      fcntl(pair[1], F_SETFD, 0);
      if (pair[1] != control::kRunnerChannelFd) dup2(pair[1], control::kRunnerChannelFd);
      execl(PPC_TEST_RUNNER, "ppc-runner", nullptr);
      return 127;
    });
    close(pair[1]);
    socket_ = std::make_unique<LineSocket>(UniqueFd(pair[0]));
    Send({{"id", 1},
          {"op", "init"},
          {"mount", tree_.Path("/models")},
          {"backend", "poll"},
          {"policy", PPC_TEST_POLICY},
          {"template_dir", tree_.Path("/templates")}});
    const Json answer = Answer();
    ASSERT_EQ(answer.value("ok", false), true) << answer;
  }
  void TearDown() override {
    socket_.reset();
    EXPECT_EQ(EndOf(pid_), kExitStopped) << "it ends with its supervisor";
  }

  void Send(const Json& line) { socket_->Send(line); }
  // The next line; null: none came.
  Json Answer() {
    for (pollfd ready{socket_->fd(), POLLIN, 0};;) {
      if (const std::optional<std::string> line = socket_->NextLine())
        return Value(ParseJson(*line, "answer"));
      if (poll(&ready, 1, kPatienceMs) <= 0 || !socket_->Receive(/*wait=*/true)) return Json();
    }
  }

  const TempTree tree_;
  const std::string fence_ = tree_.Path("/fence");
  pid_t pid_ = 0;
  std::unique_ptr<LineSocket> socket_;
};

TEST_F(SessionTest, StatusAndLogDoNotWaitForAHook) {
  Send({{"id", 2}, {"op", "control"}, {"message", {{"op", "look"}}}});
  // There is a reader once the hook waits.
  UniqueFd fence;
  ASSERT_TRUE(Eventually([&] {
    fence.Reset(open(fence_.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
    return fence.IsValid();
  }));
  Send({{"id", 3}, {"op", "ping"}});
  Send({{"id", 4}, {"op", "status"}});
  Json status = Answer();
  EXPECT_EQ(status["id"], 4) << status;
  EXPECT_EQ(status["waits_for"]["hook"], "ppc_control");
  EXPECT_TRUE(status.contains("loader"));
  Send({{"id", 5}, {"op", "log"}});
  EXPECT_EQ(Answer()["id"], 5);
  fence.Reset();
  const Json reply = Answer();
  EXPECT_EQ(reply, Json({{"id", 2}, {"ok", true}, {"reply", Json::object()}}));
  EXPECT_EQ(Answer(), Json({{"id", 3}, {"ok", true}})) << "it tells whether the policy runs";
  Send({{"id", 6}, {"op", "status"}});
  status = Answer();
  EXPECT_FALSE(status.contains("age_ms")) << status;
  EXPECT_EQ(status["hooks"]["ppc_control"]["calls"], 1);
}

}  // namespace
}  // namespace ppc
