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

#include "daemon/supervisor/new_services.h"
#include "daemon/supervisor/peer.h"
#include "daemon/supervisor/server.h"
#include "tests/unit/supervisor/rights_fixture.h"

namespace ppc::control {
namespace {

// Room for a byte and a descriptor.
struct FdMessage {
  FdMessage() {
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = space;
    header.msg_controllen = sizeof(space);
  }
  char byte = 0;
  iovec part{&byte, 1};
  alignas(cmsghdr) char space[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{};
};

class ServiceSocketTest : public RightsTest {
 protected:
  const Caller pod_{"a pod", "/pods/a", 0};
  // So many connections, each of which has been answered.
  std::vector<std::unique_ptr<RawClient>> Connect(size_t count) {
    std::vector<std::unique_ptr<RawClient>> clients;
    for (size_t i = 0; i < count; ++i) {
      clients.push_back(std::make_unique<RawClient>(service_socket_));
      EXPECT_EQ(CodeOf(clients.back()->Ask({{"op", "ping"}})), "");
    }
    return clients;
  }
  // What one more of the user is told, in groups that have no more than they may.
  Json ConnectAs(uid_t uid, const std::string& above = "/pods/") {
    const size_t group = clients_.size() / Server::kMaxPeersOfGroup;
    PutIntoGroup(getpid(), above + std::to_string(group));
    EXPECT_EQ(seteuid(uid), 0);
    clients_.push_back(std::make_unique<RawClient>(service_socket_));
    EXPECT_EQ(seteuid(0), 0);
    clients_.back()->SendLine(R"({"v":1,"op":"ping"})");
    return clients_.back()->Answer();
  }
  std::vector<std::unique_ptr<RawClient>> clients_;
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
    FdMessage message;
    cmsghdr* header = CMSG_FIRSTHDR(&message.header);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    const int fd = client.fd();
    memcpy(CMSG_DATA(header), &fd, sizeof(fd));
    sendmsg(theirs.Get(), &message.header, 0);
  });
  FdMessage message;
  ASSERT_EQ(recvmsg(ours.Get(), &message.header, 0), 1);
  int fd = -1;
  memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message.header)), sizeof(fd));
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
  EXPECT_TRUE(Has(DumpJson(outside), "cgroup namespace")) << outside;
  EXPECT_EQ(CodeOf(AskAs({"removed", "/pods/a (deleted)", 0}, Start("svc-x"))), "ESRCH");
}

TEST_F(ServiceSocketTest, AnOverlongLineIsRefusedSooner) {
  PutIntoGroup(getpid(), "/pods/a");
  RawClient client(service_socket_);
  client.Send(std::string(kMaxServiceLineBytes + 1, 'x'));
  EXPECT_EQ(client.Answer()["code"], "E2BIG");
  EXPECT_TRUE(client.IsClosedByPeer());
}

TEST_F(ServiceSocketTest, AGroupHasSoManyConnections) {
  PutIntoGroup(getpid(), "/pods/a");
  auto clients = Connect(Server::kMaxPeersOfGroup);
  RawClient one_more(service_socket_);
  const Json refused = one_more.Answer();
  EXPECT_EQ(CodeOf(refused), "EMFILE") << refused;
  EXPECT_TRUE(Has(DaemonLog(), "connect: this control group has"));
  EXPECT_EQ(CodeOf(AskAs({"another", "/pods/b", 0}, Json{{"op", "ping"}})), "");
  EXPECT_EQ(CodeOf(Ask({{"op", "ping"}})), "") << "root's are counted apart";
  clients.clear();
  EXPECT_TRUE(Eventually([this] { return CodeOf(AskAs(pod_, Json{{"op", "ping"}})).empty(); }));
}

TEST_F(ServiceSocketTest, AUserHasSoManyConnections) {
  for (size_t i = 0; i < Server::kMaxPeersOfUser; ++i) ASSERT_EQ(CodeOf(ConnectAs(61002)), "") << i;
  const Json refused = ConnectAs(61002);
  EXPECT_TRUE(Has(DumpJson(refused), "this user has")) << refused;
  EXPECT_EQ(CodeOf(AskAs({"somebody", "/pods/b", 61001}, Json{{"op", "ping"}})), "");
  // In containers without a user namespace every process is user 0.
  for (size_t i = 0; i <= Server::kMaxPeersOfUser; ++i) ASSERT_EQ(CodeOf(ConnectAs(0)), "") << i;
}

TEST_F(ServiceSocketTest, AnIdleConnectionGoesWhereItsPlaceIsNeeded) {
  environment_.push_back("PPC_TIME_SCALE_PERCENT=1");
  RestartDaemon();
  PutIntoGroup(getpid(), "/pods/a");
  auto clients = Connect(Server::kMaxPeersOfGroup);
  EXPECT_TRUE(Eventually([this] { return CodeOf(AskAs(pod_, Json{{"op", "ping"}})).empty(); }));
  EXPECT_TRUE(clients[0]->IsClosedByPeer()) << "the one that has been idle for longest";
  EXPECT_EQ(CodeOf(clients[1]->Ask({{"op", "ping"}})), "");
}

TEST_F(ServiceSocketTest, HalfOfTheDescriptorsAreLeftToOthers) {
  const rlimit few{200, 200};
  ASSERT_EQ(prlimit(daemon_, RLIMIT_NOFILE, &few, nullptr), 0);
  Json answer = ConnectAs(0);
  while (CodeOf(answer).empty() && clients_.size() < 100) answer = ConnectAs(0);
  EXPECT_EQ(clients_.size(), 51U) << answer;
  EXPECT_EQ(CodeOf(Ask({{"op", "ping"}})), "");
  EXPECT_FALSE(Has(DaemonLog(), "no descriptor is left"));
}

TEST_F(ServiceSocketTest, AGroupHasSoManyServices) {
  std::vector<Json> starts;
  for (size_t i = 0; i <= NewServices::kMaxServicesOfGroup; ++i) {
    starts.push_back(Start("svc-" + std::to_string(i)));
  }
  const std::vector<Json> answers = AskAs(pod_, starts);
  for (size_t i = 0; i < NewServices::kMaxServicesOfGroup; ++i) EXPECT_EQ(CodeOf(answers[i]), "");
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
    for (size_t i = 0; i < NewServices::kMaxServicesOfGroup; ++i) {
      starts.push_back(Start("svc-" + std::to_string(group) + "." + std::to_string(i)));
    }
    for (const Json& answer : AskAs({"one of many", name, 61001}, starts)) {
      if (CodeOf(answer).empty()) ++started;
      if (!CodeOf(answer).empty() && refused.is_null()) refused = answer;
    }
  }
  EXPECT_EQ(started, NewServices::kMaxServicesOfUser);
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

// Root of a container makes as many groups there as it likes.
TEST_F(ServiceSocketTest, GroupsBelowAContainerAreItsOwn) {
  size_t started = 0;
  for (int group = 0; group < 70; ++group) {
    const std::string name = "/pods/a/" + std::to_string(group);
    MakeGroup(name);
    const Json answer = AskAs({"root there", name, 0}, Start("svc-" + std::to_string(group)));
    started += CodeOf(answer).empty() ? 1 : 0;
  }
  EXPECT_EQ(started, NewServices::kMaxServicesOfUser);
  EXPECT_EQ(CodeOf(AskAs({"another", "/pods/b", 0}, Start("svc-other"))), "");
  for (size_t i = 0; i < Server::kMaxPeersOfUser; ++i)
    ASSERT_EQ(CodeOf(ConnectAs(0, "/pods/a/")), "") << i;
  EXPECT_EQ(CodeOf(ConnectAs(0, "/pods/a/")), "EMFILE");
  EXPECT_EQ(CodeOf(ConnectAs(0)), "");
}

TEST_F(ServiceSocketTest, StartingAgainAndAgainIsSlowedDown) {
  const std::vector<Json> answers = AskAs(pod_, std::vector<Json>(40, Start("svc-a")));
  EXPECT_EQ(CodeOf(answers.front()), "");
  EXPECT_EQ(CodeOf(answers.back()), "EAGAIN") << answers.back();
  EXPECT_EQ(CodeOf(AskAs({"another", "/pods/b", 0}, Start("svc-b"))), "");
}

TEST_F(ServiceSocketTest, RefusalsDoNotFillTheLog) {
  const std::vector<Json> many(200, About("service_stop", "svc-a"));
  ASSERT_EQ(CodeOf(AskAs({"another", "/pods/b", 0}, Start("svc-a"))), "");
  for (const Json& answer : AskAs(pod_, many)) ASSERT_EQ(CodeOf(answer), "EACCES");
  const auto lines = [this] { return CountOf("refused: ", DaemonLog()); };
  EXPECT_GE(lines(), Refusals::kLines);
  EXPECT_LE(lines(), 2 * Refusals::kLines);
  // Another's is logged all the same.
  EXPECT_EQ(CodeOf(AskAs({"third", "/pods/c", 0}, About("service_stop", "svc-a"))), "EACCES");
  EXPECT_TRUE(Has(DaemonLog(), "cgroup \"/pods/c\" service_stop"));
  EXPECT_TRUE(Has(DaemonLog(), "refusals not logged)"));
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
  // ppcd by the machine's own /proc.
  void RestartInOwnProc() {
    std::erase_if(environment_, [](const auto& e) { return e.starts_with("PPC_PROCROOT"); });
    RestartDaemon();
    ASSERT_TRUE(WaitForState("running"));
  }
  ProcessResult CtlAs(const std::string& uid, const std::vector<std::string>& arguments) {
    std::vector<std::string> argv = {"/usr/bin/setpriv", "--reuid", uid, "--regid", uid,
                                     "--clear-groups",   kPpcctl};
    argv.insert(argv.end(), arguments.begin(), arguments.end());
    return RunProcess(argv, environment_);
  }
};

TEST_F(LibraryRightsTest, PpcctlTakesTheSocketThatItMay) {
  // ppcd's /proc has no process that it was not told of: a caller belongs to no group.
  ExpectFailure(CtlAs("61001", {"list"}), 1);
  EXPECT_EQ(Ctl({"list"}).exit_status, 0);
  RestartInOwnProc();
  ExpectFailure(CtlAs("61001", {"list"}), 1, "list is root's: run ppcctl as root");
  const ProcessResult status = CtlAs("61001", {"status"});
  EXPECT_EQ(status.exit_status, 0) << status.err;
  EXPECT_FALSE(Has(status.out, kMount));
  StopDaemon();
  StartDaemon({"--service-socket", "none"});
  ExpectFailure(CtlAs("61001", {"status"}), 3, "root's (sudo)");
}

TEST_F(LibraryRightsTest, RunJoinsWhatRootHasRegistered) {
  RestartInOwnProc();
  ExpectRan(CtlAs("61001", {"run", "--id", "svc-run", "/proc/sys", "--", "/bin/sh", "-c",
                            kPpcctl + " service ready && echo $PPC_MOUNT$PPC_SOCKET"}),
            0, std::string(kMount) + socket_ + "\n", "");
  EXPECT_TRUE(Has(RunnerLog(), "\"op\":\"service_ready\",\"service_id\":\"svc-run\""));
  EXPECT_TRUE(StatusOf()["services"].empty()) << "the end of the command is its end";
}

}  // namespace
}  // namespace ppc::control
