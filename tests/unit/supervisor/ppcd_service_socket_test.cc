// SPDX-License-Identifier: Apache-2.0
// What peers may do to the service socket itself: who they are taken for, and how much of it they
// may have.
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>

#include "daemon/supervisor/peer.h"
#include "daemon/supervisor/server.h"
#include "daemon/supervisor/start_rights.h"
#include "tests/unit/supervisor/rights_fixture.h"

namespace ppc::control {
namespace {

class ServiceSocketTest : public RightsTest {
 protected:
  const Caller pod_{"a pod", "/pods/a", 0};

  Json Answer(RawClient& client) {
    const Result<Json> answer = ParseJson(client.ReadLine(), "answer");
    return answer ? *answer : Json(nullptr);
  }
};

// A connection that a process has passed on and outlived has no rights.
TEST_F(ServiceSocketTest, APassedConnectionIsItsConnectorsWhileThatLives) {
  ASSERT_EQ(CodeOf(AskAs(pod_, Start("svc-a"))), "");
  PutIntoGroup(getpid(), "/pods/b");
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const UniqueFd ours(ends[0]), theirs(ends[1]);
  const pid_t connector = Keep(pod_, [&] {
    const RawClient client(service_socket_);
    char byte = 0;
    iovec part{&byte, 1};
    alignas(cmsghdr) char space[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = space;
    message.msg_controllen = sizeof(space);
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    const int fd = client.fd();
    memcpy(CMSG_DATA(header), &fd, sizeof(fd));
    sendmsg(theirs.Get(), &message, 0);
  });
  char byte;
  iovec part{&byte, 1};
  alignas(cmsghdr) char space[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = space;
  message.msg_controllen = sizeof(space);
  ASSERT_EQ(recvmsg(ours.Get(), &message, 0), 1);
  int fd = -1;
  memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(fd));
  RawClient passed{UniqueFd(fd)};
  EXPECT_EQ(CodeOf(passed.Ask(About("service_ready", "svc-a"))), "");
  // It may move, too: rights are those of the moment.
  PutIntoGroup(connector, "/pods/b");
  EXPECT_EQ(CodeOf(passed.Ask(About("service_ready", "svc-a"))), "EACCES");
  PutIntoGroup(connector, "/pods/a");
  kill(connector, SIGKILL);
  EXPECT_TRUE(Eventually([connector] {
    return kill(connector, 0) != 0 || waitpid(connector, nullptr, WNOHANG) == connector;
  }));
  const Json late = passed.Ask(About("service_stop", "svc-a"));
  EXPECT_EQ(CodeOf(late), "ESRCH") << late;
  EXPECT_EQ(StatusOf()["services"].size(), 1U);
}

TEST_F(ServiceSocketTest, AGroupThatPpcdCannotSeeHasNoRights) {
  const Json outside = AskAs({"outside", "/../elsewhere", 0}, Start("svc-x"));
  EXPECT_EQ(CodeOf(outside), "EACCES");
  EXPECT_NE(DumpJson(outside).find("cgroup namespace"), std::string::npos) << outside;
  EXPECT_EQ(CodeOf(AskAs({"removed", "/pods/a (deleted)", 0}, Start("svc-x"))), "ESRCH");
}

TEST_F(ServiceSocketTest, AnOverlongLineIsRefusedSooner) {
  PutIntoGroup(getpid(), "/pods/a");
  RawClient client(service_socket_);
  client.Send(std::string(kMaxServiceLineBytes + 1, 'x'));
  EXPECT_EQ(Answer(client)["code"], "E2BIG");
  EXPECT_TRUE(client.IsClosedByPeer());
}

TEST_F(ServiceSocketTest, AGroupHasSoManyConnections) {
  PutIntoGroup(getpid(), "/pods/a");
  std::vector<std::unique_ptr<RawClient>> clients;
  for (size_t i = 0; i < Server::kMaxPeersOfGroup; ++i) {
    clients.push_back(std::make_unique<RawClient>(service_socket_));
    ASSERT_EQ(CodeOf(clients.back()->Ask({{"op", "ping"}})), "");
  }
  RawClient one_more(service_socket_);
  const Json refused = Answer(one_more);
  EXPECT_EQ(CodeOf(refused), "EMFILE") << refused;
  EXPECT_NE(DaemonLog().find("connect: this control group has"), std::string::npos);
  EXPECT_EQ(CodeOf(AskAs({"another", "/pods/b", 0}, Json{{"op", "ping"}})), "");
  EXPECT_EQ(CodeOf(Ask({{"op", "ping"}})), "") << "root's are counted apart";
  clients.clear();
  EXPECT_TRUE(Eventually([this] { return CodeOf(AskAs(pod_, Json{{"op", "ping"}})).empty(); }));
}

TEST_F(ServiceSocketTest, AUserHasSoManyConnections) {
  std::vector<std::unique_ptr<RawClient>> clients;
  size_t count = 0;
  const auto connect = [&](uid_t uid) {
    PutIntoGroup(getpid(), "/pods/" + std::to_string(count++ / Server::kMaxPeersOfGroup));
    EXPECT_EQ(seteuid(uid), 0);
    clients.push_back(std::make_unique<RawClient>(service_socket_));
    EXPECT_EQ(seteuid(0), 0);
    clients.back()->SendLine(R"({"v":1,"op":"ping"})");
    return Answer(*clients.back());
  };
  for (size_t i = 0; i < Server::kMaxPeersOfUser; ++i) ASSERT_EQ(CodeOf(connect(61002)), "") << i;
  const Json refused = connect(61002);
  EXPECT_NE(DumpJson(refused).find("this user has"), std::string::npos) << refused;
  EXPECT_EQ(CodeOf(AskAs({"somebody", "/pods/b", 61001}, Json{{"op", "ping"}})), "");
  // In containers without a user namespace every process is user 0.
  for (size_t i = 0; i <= Server::kMaxPeersOfUser; ++i) ASSERT_EQ(CodeOf(connect(0)), "") << i;
}

TEST_F(ServiceSocketTest, AnIdleConnectionGoesWhereItsPlaceIsNeeded) {
  StopDaemon();
  environment_.push_back("PPC_TIME_SCALE_PERCENT=1");
  StartDaemon();
  PutIntoGroup(getpid(), "/pods/a");
  std::vector<std::unique_ptr<RawClient>> clients;
  for (size_t i = 0; i < Server::kMaxPeersOfGroup; ++i) {
    clients.push_back(std::make_unique<RawClient>(service_socket_));
    ASSERT_EQ(CodeOf(clients.back()->Ask({{"op", "ping"}})), "");
  }
  EXPECT_TRUE(Eventually([this] { return CodeOf(AskAs(pod_, Json{{"op", "ping"}})).empty(); }));
  EXPECT_TRUE(clients[0]->IsClosedByPeer()) << "the one that has been idle for longest";
  EXPECT_EQ(CodeOf(clients[1]->Ask({{"op", "ping"}})), "");
}

TEST_F(ServiceSocketTest, HalfOfTheDescriptorsAreLeftToOthers) {
  const rlimit few{200, 200};
  ASSERT_EQ(prlimit(daemon_, RLIMIT_NOFILE, &few, nullptr), 0);
  std::vector<std::unique_ptr<RawClient>> clients;
  Json answer;
  for (size_t i = 0; i < 100 && (i == 0 || CodeOf(answer).empty()); ++i) {
    PutIntoGroup(getpid(), "/pods/" + std::to_string(i / Server::kMaxPeersOfGroup));
    clients.push_back(std::make_unique<RawClient>(service_socket_));
    clients.back()->SendLine(R"({"v":1,"op":"ping"})");
    answer = Answer(*clients.back());
  }
  EXPECT_EQ(clients.size(), 51U) << answer;
  EXPECT_EQ(CodeOf(Ask({{"op", "ping"}})), "");
  EXPECT_EQ(DaemonLog().find("no descriptor is left"), std::string::npos);
}

TEST_F(ServiceSocketTest, AGroupHasSoManyServices) {
  std::vector<Json> starts;
  for (size_t i = 0; i <= StartRights::kMaxServicesOfGroup; ++i) {
    starts.push_back(Start("svc-" + std::to_string(i)));
  }
  const std::vector<Json> answers = AskAs(pod_, starts);
  for (size_t i = 0; i < StartRights::kMaxServicesOfGroup; ++i) EXPECT_EQ(CodeOf(answers[i]), "");
  EXPECT_EQ(CodeOf(answers.back()), "ENOSPC") << answers.back();
  EXPECT_EQ(CodeOf(AskAs(pod_, starts[0])), "") << "one that is there may start again";
  EXPECT_EQ(CodeOf(AskAs({"another", "/pods/b", 0}, Start("svc-other"))), "");
  EXPECT_EQ(CodeOf(Ask(Start("svc-roots"))), "");
}

TEST_F(ServiceSocketTest, AUserHasSoManyServices) {
  size_t started = 0;
  Json refused;
  for (int group = 0; refused.is_null() && group < 100; ++group) {
    const std::string name = "/pods/" + std::to_string(group);
    MakeGroup(name);
    std::vector<Json> starts;
    for (size_t i = 0; i < StartRights::kMaxServicesOfGroup; ++i) {
      starts.push_back(Start("svc-" + std::to_string(group) + "." + std::to_string(i)));
    }
    for (const Json& answer : AskAs({"one of many", name, 61001}, starts)) {
      if (CodeOf(answer).empty()) ++started;
      if (!CodeOf(answer).empty() && refused.is_null()) refused = answer;
    }
  }
  EXPECT_EQ(started, StartRights::kMaxServicesOfUser);
  EXPECT_EQ(CodeOf(refused), "ENOSPC") << refused;
}

// As on a node whose containers have no user namespaces.
TEST_F(ServiceSocketTest, ContainersRootsAreNotOneUser) {
  for (int group = 0; group < 70; ++group) {
    const std::string name = "/pods/" + std::to_string(group);
    MakeGroup(name);
    const Json answer = AskAs({"root there", name, 0}, Start("svc-" + std::to_string(group)));
    ASSERT_EQ(CodeOf(answer), "") << group << answer;
  }
}

TEST_F(ServiceSocketTest, StartingAgainAndAgainIsSlowedDown) {
  std::vector<Json> starts(40, Start("svc-a"));
  std::vector<Json> answers = AskAs(pod_, starts);
  EXPECT_EQ(CodeOf(answers.front()), "");
  EXPECT_EQ(CodeOf(answers.back()), "EAGAIN") << answers.back();
  EXPECT_EQ(CodeOf(AskAs({"another", "/pods/b", 0}, Start("svc-b"))), "");
}

TEST_F(ServiceSocketTest, RefusalsDoNotFillTheLog) {
  const std::vector<Json> many(200, About("service_stop", "svc-a"));
  ASSERT_EQ(CodeOf(AskAs({"another", "/pods/b", 0}, Start("svc-a"))), "");
  for (const Json& answer : AskAs(pod_, many)) ASSERT_EQ(CodeOf(answer), "EACCES");
  const auto lines = [this] {
    const std::string log = DaemonLog();
    size_t count = 0;
    for (size_t at = log.find("refused: "); at != std::string::npos;
         at = log.find("refused: ", at + 1)) {
      ++count;
    }
    return count;
  };
  EXPECT_GE(lines(), Refusals::kLines);
  EXPECT_LE(lines(), 2 * Refusals::kLines);
  // Another's is logged all the same.
  EXPECT_EQ(CodeOf(AskAs({"third", "/pods/c", 0}, About("service_stop", "svc-a"))), "EACCES");
  EXPECT_NE(DaemonLog().find("cgroup \"/pods/c\" service_stop"), std::string::npos);
  EXPECT_NE(DaemonLog().find("refusals not logged)"), std::string::npos);
}

TEST_F(ServiceSocketTest, NoneIsMadeWhereNoneIsWanted) {
  StopDaemon();
  struct stat info {};
  EXPECT_NE(stat(service_socket_.c_str(), &info), 0) << "it goes with ppcd";
  StartDaemon({"--service-socket", "none"});
  EXPECT_NE(stat(service_socket_.c_str(), &info), 0);
  EXPECT_EQ(CodeOf(Ask({{"op", "ping"}})), "");
  StopDaemon();
  StartDaemon({"--service-socket", dir_ + "/elsewhere"});
  EXPECT_TRUE(RawClient(dir_ + "/elsewhere").IsConnected());
}

class LibraryRightsTest : public RightsTest {
 protected:
  ProcessResult CtlAs(const std::string& uid, const std::vector<std::string>& arguments) {
    std::vector<std::string> argv = {"/usr/bin/setpriv",
                                     "--reuid",
                                     uid,
                                     "--regid",
                                     uid,
                                     "--clear-groups",
                                     std::string(PPC_TEST_BIN_DIR) + "/ppcctl"};
    argv.insert(argv.end(), arguments.begin(), arguments.end());
    return RunProcess(argv, environment_);
  }
};

TEST_F(LibraryRightsTest, PpcctlTakesTheSocketThatItMay) {
  // ppcd's /proc has no process that it was not told of: a caller belongs to no group.
  const ProcessResult refused = CtlAs("61001", {"list"});
  EXPECT_EQ(refused.exit_status, 1) << refused.err;
  ExpectOneLine(refused);
  EXPECT_EQ(Ctl({"list"}).exit_status, 0);
  StopDaemon();
  std::erase_if(environment_, [](const auto& entry) { return entry.starts_with("PPC_PROCROOT"); });
  StartDaemon();
  ASSERT_TRUE(WaitForState("running"));
  const ProcessResult list = CtlAs("61001", {"list"});
  EXPECT_EQ(list.exit_status, 1);
  ExpectOneLine(list);
  EXPECT_NE(list.err.find("list is root's: run ppcctl as root"), std::string::npos) << list.err;
  const ProcessResult status = CtlAs("61001", {"status"});
  EXPECT_EQ(status.exit_status, 0) << status.err;
  EXPECT_EQ(status.out.find(kMount), std::string::npos) << status.out;
  StopDaemon();
  StartDaemon({"--service-socket", "none"});
  const ProcessResult nothing = CtlAs("61001", {"status"});
  EXPECT_EQ(nothing.exit_status, 3);
  ExpectOneLine(nothing);
  EXPECT_NE(nothing.err.find("root's (sudo)"), std::string::npos) << nothing.err;
}

TEST_F(LibraryRightsTest, RunJoinsWhatRootHasRegistered) {
  StopDaemon();
  std::erase_if(environment_, [](const auto& entry) { return entry.starts_with("PPC_PROCROOT"); });
  StartDaemon();
  ASSERT_TRUE(WaitForState("running"));
  const std::string ctl = std::string(PPC_TEST_BIN_DIR) + "/ppcctl";
  const ProcessResult result =
      CtlAs("61001", {"run", "--id", "svc-run", "/proc/sys", "--", "/bin/sh", "-c",
                      ctl + " service ready && echo $PPC_MOUNT$PPC_SOCKET"});
  EXPECT_EQ(result.exit_status, 0) << result.err;
  EXPECT_EQ(result.err, "");
  EXPECT_EQ(result.out, std::string(kMount) + socket_ + "\n");
  EXPECT_NE(RunnerLog().find("\"op\":\"service_ready\",\"service_id\":\"svc-run\""),
            std::string::npos)
      << RunnerLog();
  EXPECT_TRUE(StatusOf()["services"].empty()) << "the end of the command is its end";
}

}  // namespace
}  // namespace ppc::control
