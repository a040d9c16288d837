// SPDX-License-Identifier: Apache-2.0
// Rights: each operation by each kind of caller (docs/security.md).
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <set>

#include "daemon/wire/protocol.h"
#include "tests/unit/supervisor/rights_fixture.h"

namespace ppc::control {
namespace {

constexpr uid_t kUser = 61001;

class PpcdRightsTest : public RightsTest {
 protected:
  const Caller admin_{"root on the admin socket", "/", 0, true};
  const Caller container_root_{"root in another container", "/pods/b", 0};
  const Caller owner_{"the service's own group", "/pods/a", kUser};
  const Caller neighbour_{"the same user in another group", "/pods/b", kUser};
  const Caller stranger_{"an unprivileged user without a group", "/", kUser};

  // What a service's own group and root may do: about svc-a, which is of_owner's.
  std::vector<Json> ForItsGroup(pid_t of_owner) {
    Json phase = About("service_phase", "svc-a");
    phase["phase"] = "weights";
    return {About("service_ready", "svc-a"),
            About("service_stop", "svc-a"),
            About("service_failed", "svc-a"),
            phase,
            Start("svc-a", {{"pid", 0}}),
            Start("svc-new", {{"pid", 0}, {"cgroup", "/pods/a"}}),
            Start("svc-new", {{"pid", 0}, {"cgroup", "/pods/a/below"}}),
            Start("svc-new", {{"pid", of_owner}})};
  }
  // In an order in which root can.
  static std::vector<Json> ForRoot() {
    return {{{"op", "reg_policy"}, {"mount", kOtherMount}, {"policy", "alpha"}},
            {{"op", "reg_policy"}, {"mount", kOtherMount}, {"policy", "/tmp/x.so"}},
            {{"op", "policy"}, {"mount", kMount}, {"message", {{"op", "bind_pid"}}}},
            {{"op", "list"}},
            {{"op", "log"}},
            {{"op", "metrics"}},
            {{"op", "node_state"}, {"node", Json::object()}, {"for_s", 1}},
            {{"op", "off"}},
            {{"op", "on"}},
            {{"op", "rm_policy"}, {"mount", kMount}}};
  }
  static std::vector<Json> ForAll() {
    return {{{"op", "ping"}}, {{"op", "service_id"}, {"params", {{"a", 1}}}}, {{"op", "status"}}};
  }

  void ExpectRefusalIsLogged(const Caller& caller, const std::string& op) {
    const std::string line = "refused: uid " + std::to_string(caller.uid);
    const std::string group = "cgroup \"" + caller.cgroup + "\" " + op + ": ";
    EXPECT_TRUE(Eventually([&] {
      const std::string log = DaemonLog();
      for (size_t at = log.find(line); at != std::string::npos; at = log.find(line, at + 1)) {
        const std::string rest = log.substr(at, log.find('\n', at) - at);
        if (rest.find(group) != std::string::npos) return true;
      }
      return false;
    })) << caller.name
        << " " << op;
  }
};

TEST_F(PpcdRightsTest, EachOperationByEachCaller) {
  const pid_t of_owner = Keep(owner_);
  ASSERT_EQ(CodeOf(AskAs(owner_, Start("svc-a"))), "");
  for (const Caller& caller : {container_root_, neighbour_, stranger_}) {
    std::vector<Json> requests = ForItsGroup(of_owner);
    for (const Json& request : ForRoot()) requests.push_back(request);
    const size_t refused = requests.size();
    for (const Json& request : ForAll()) requests.push_back(request);
    const std::vector<Json> answers = AskAs(caller, requests);
    for (size_t i = 0; i < requests.size(); ++i) {
      EXPECT_EQ(CodeOf(answers[i]), i < refused ? "EACCES" : "") << caller.name << "\n"
                                                                 << requests[i] << "\n"
                                                                 << answers[i];
      if (i >= refused) continue;
      ExpectRefusalIsLogged(caller, requests[i].at("op"));
      EXPECT_EQ(answers[i]["error"].get<std::string>().find('\n'), std::string::npos);
    }
    const Json status = AskAs(caller, Json{{"op", "status"}});
    EXPECT_FALSE(Has(DumpJson(status), "svc-a")) << caller.name;
    EXPECT_TRUE(AskAs(caller, Json{{"op", "status"}, {"mount", kMount}})["mounts"].empty());
  }
  EXPECT_EQ(StatusOf()["services"].size(), 1U) << "it still runs";
  EXPECT_EQ(StatusOf()["services"][0]["state"], "started");
  EXPECT_EQ(StateOf(kOtherMount), "native");

  // The service's own group may do what concerns it, and no more.
  EXPECT_EQ(AskAs(owner_, Json{{"op", "status"}})["mounts"][0]["services"][0]["service_id"],
            "svc-a");
  EXPECT_EQ(CodeOf(AskAs(owner_, Start("svc-a"))), "");
  EXPECT_EQ(CodeOf(AskAs(owner_, Start("svc-below", {{"cgroup", "/pods/a/below"}}))), "");
  EXPECT_EQ(CodeOf(AskAs(owner_, Start("svc-pid", {{"pid", of_owner}}))), "");
  for (const Json& request : ForRoot()) {
    EXPECT_EQ(CodeOf(AskAs(owner_, request)), "EACCES") << request;
  }
  EXPECT_EQ(CodeOf(AskAs(owner_, About("service_ready", "svc-a"))), "");
  EXPECT_EQ(CodeOf(AskAs(owner_, About("service_stop", "svc-a"))), "");

  // Root may do everything.
  ASSERT_EQ(CodeOf(AskAs(owner_, Start("svc-a"))), "");
  for (const Json& request :
       {Start("svc-a", {{"cgroup", "/pods/b"}}), About("service_ready", "svc-below"),
        About("service_stop", "svc-pid")}) {
    EXPECT_EQ(CodeOf(AskAs(admin_, request)), "") << request;
  }
  for (const Json& request : ForRoot()) {
    const bool is_missing = request.value("policy", "") == "/tmp/x.so";
    EXPECT_EQ(CodeOf(AskAs(admin_, request)), is_missing ? "EBUSY" : "") << request;
  }
}

// An operation without a row in the matrix fails here.
TEST_F(PpcdRightsTest, TheMatrixHasEveryOperation) {
  std::set<std::string> rows;
  for (const auto& requests : {ForItsGroup(1), ForRoot(), ForAll()}) {
    for (const Json& request : requests) rows.insert(request.at("op"));
  }
  const std::vector<std::string> all = OperationNames();
  EXPECT_EQ(rows, std::set<std::string>(all.begin(), all.end()));
}

TEST_F(PpcdRightsTest, AServiceOfASharedGroupIsItsUsers) {
  const pid_t mine = Keep(stranger_);
  const Caller other{"another user there", "/", kUser + 1};
  const pid_t others = Keep(other);
  const Json unnamed = AskAs(stranger_, Start("svc-u"));
  EXPECT_EQ(CodeOf(unnamed), "EINVAL") << "it would be everybody's";
  EXPECT_TRUE(Has(DumpJson(unnamed), "--pid")) << unnamed;
  EXPECT_EQ(CodeOf(AskAs(stranger_, Start("svc-u", {{"pid", others}}))), "EACCES");
  EXPECT_EQ(CodeOf(AskAs(stranger_, Start("svc-u", {{"pid", mine}, {"cgroup", "/pods/a"}}))),
            "EACCES");
  const Json started = AskAs(stranger_, Start("svc-u", {{"pid", mine}, {"cgroup", "/"}}));
  EXPECT_EQ(CodeOf(started), "") << started;
  EXPECT_EQ(started["echo"]["by_cgroup"], false) << "not everybody in the root belongs to it";
  EXPECT_EQ(CodeOf(AskAs(other, About("service_stop", "svc-u"))), "EACCES");
  // The same user in a group of its own, or root there, is another caller.
  EXPECT_EQ(CodeOf(AskAs(owner_, About("service_stop", "svc-u"))), "EACCES");
  EXPECT_EQ(CodeOf(AskAs({"root there", "/", 0}, About("service_stop", "svc-u"))), "EACCES");
  EXPECT_EQ(CodeOf(AskAs(stranger_, About("service_stop", "svc-u"))), "");
}

TEST_F(PpcdRightsTest, WhatRootStartsForAGroupIsTheGroups) {
  const pid_t of_owner = Keep(owner_);
  ASSERT_EQ(CodeOf(Ask(Start("svc-named", {{"cgroup", "/pods/a"}}))), "");
  ASSERT_EQ(CodeOf(Ask(Start("svc-pid", {{"pid", of_owner}}))), "");
  PutIntoGroup(getpid(), "/pods/a");
  ASSERT_EQ(CodeOf(Ask(Start("svc-roots"))), "") << "started from a shell there, for nobody named";
  EXPECT_EQ(CodeOf(AskAs(neighbour_, About("service_ready", "svc-named"))), "EACCES");
  EXPECT_EQ(CodeOf(AskAs(owner_, About("service_ready", "svc-named"))), "");
  EXPECT_EQ(CodeOf(AskAs(owner_, About("service_ready", "svc-pid"))), "");
  EXPECT_EQ(CodeOf(AskAs(owner_, About("service_ready", "svc-roots"))), "EACCES");
  EXPECT_EQ(CodeOf(AskAs({"below", "/pods/a/below", kUser}, About("service_stop", "svc-named"))),
            "EACCES")
      << "a group has no right to what is above it";
}

// A script of root may start the server as another user.  So all readers below are the service's,
// which docs/security.md says with the remedy.
TEST_F(PpcdRightsTest, WhatRootStartsInASharedGroupHasItsReaders) {
  PutIntoGroup(getpid(), "/");
  const Json of_all = Ask(Start("svc-shell"))["echo"];
  EXPECT_EQ(of_all["cgroup"], "/");
  EXPECT_FALSE(of_all.contains("by_cgroup")) << of_all;
  EXPECT_EQ(Ask(Start("svc-pid", {{"pid", getpid()}}))["echo"]["by_cgroup"], false);
}

// A caller that may say that a service is ready may say how far it is.
TEST_F(PpcdRightsTest, PhasesAreToldByWhoMayTellReadiness) {
  ASSERT_EQ(CodeOf(AskAs(owner_, Start("svc-a"))), "");
  Json phase = About("service_phase", "svc-a");
  EXPECT_EQ(CodeOf(AskAs(owner_, phase)), "EINVAL") << "which?";
  phase["phase"] = "weights";
  for (const Caller& caller : {container_root_, neighbour_, stranger_}) {
    EXPECT_EQ(CodeOf(AskAs(caller, phase)), "EACCES") << caller.name;
    ExpectRefusalIsLogged(caller, "service_phase");
  }
  EXPECT_EQ(CodeOf(AskAs(owner_, phase)), "");
  EXPECT_EQ(CodeOf(AskAs(admin_, phase)), "");
  phase["phase"] = "loading";
  const Json unknown = AskAs(owner_, phase);
  EXPECT_EQ(CodeOf(unknown), "EINVAL");
  EXPECT_TRUE(Has(DumpJson(unknown), "weights, compile")) << unknown;
  phase["phase"] = "ready";
  EXPECT_EQ(CodeOf(AskAs(neighbour_, phase)), "EACCES");
  EXPECT_EQ(CodeOf(AskAs(owner_, phase)), "");
  EXPECT_EQ(AskAs(owner_, Json{{"op", "status"}})["mounts"][0]["services"][0]["state"], "ready");
}

TEST_F(PpcdRightsTest, RightsOutliveARestart) {
  ASSERT_EQ(CodeOf(AskAs(owner_, Start("svc-a"))), "");
  StopDaemon();
  StartDaemon();
  ASSERT_TRUE(WaitForState("running"));
  EXPECT_EQ(CodeOf(AskAs(neighbour_, About("service_stop", "svc-a"))), "EACCES");
  EXPECT_EQ(CodeOf(AskAs(owner_, About("service_stop", "svc-a"))), "");
}

TEST_F(PpcdRightsTest, ThePayerIsTheCallersGroup) {
  const Json started = AskAs(owner_, Start("svc-a"));
  EXPECT_EQ(started["echo"]["cgroup"], "/pods/a");
  EXPECT_FALSE(started["echo"].contains("by_cgroup")) << "who is in the group belongs to it";
  EXPECT_EQ(started["mount"], kMount);
  const Json inside = AskAs(owner_, Json{{"op", "service_start"},
                                         {"mount", std::string(kMount) + "/some/model"},
                                         {"service_id", "svc-inside"}});
  EXPECT_EQ(inside["mount"], kMount) << "the registered directory around it; " << inside;
  const Json nowhere = AskAs(
      owner_, Json{{"op", "service_start"}, {"mount", "/proc2"}, {"service_id", "svc-nowhere"}});
  EXPECT_EQ(CodeOf(nowhere), "ENOENT");
  EXPECT_TRUE(Has(DumpJson(nowhere), "reg_policy"));
}

TEST_F(PpcdRightsTest, AServiceEndsWithItsGroup) {
  MakeGroup("/pods/short");
  ASSERT_EQ(CodeOf(AskAs({"short-lived", "/pods/short", 0}, Start("svc-short"))), "");
  ASSERT_EQ(CodeOf(AskAs(owner_, Start("svc-a"))), "");
  ASSERT_EQ(CodeOf(Ask(Start("svc-roots", {{"cgroup", "/pods/short"}}))), "");
  RemoveGroup("/pods/short");
  EXPECT_TRUE(Eventually([this] { return StatusOf()["services"].size() == 2; }));
  EXPECT_TRUE(Has(DaemonLog(), "\"/pods/short\" of service svc-short is gone"));
  EXPECT_EQ(CodeOf(AskAs(owner_, About("service_stop", "svc-a"))), "");
}

// A user that makes a group anew under its name has no right to services of the one before.
TEST_F(PpcdRightsTest, AServiceEndsWithItsGroupThoughAnotherHasItsName) {
  MakeGroup("/pods/short");
  ASSERT_EQ(CodeOf(AskAs({"short-lived", "/pods/short", 0}, Start("svc-short"))), "");
  // The file system would give a removed one's inode to the next.
  const std::string pods = dir_ + "/sysroot/sys/fs/cgroup/pods/";
  std::filesystem::rename(pods + "short", pods + "kept");
  MakeGroup("/pods/short");
  EXPECT_TRUE(Eventually([this] { return StatusOf()["services"].empty(); }));
}

TEST_F(PpcdRightsTest, ADirectoryIsNoGroupOfACaller) {
  MakeGroup("/sys");
  EXPECT_EQ(CodeOf(AskAs({"a group called /sys", "/sys", kUser},
                         Start("svc-x", {{"cgroup", "/sys/fs/cgroup/pods/b"}}))),
            "EACCES");
}

TEST_F(PpcdRightsTest, TheSocketsModesAreTheirUsers) {
  struct stat info {};
  ASSERT_EQ(stat(socket_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
  ASSERT_EQ(stat(service_socket_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0666U);
  EXPECT_EQ(AskAs({"no root", "/", kUser, true}, Json{{"op", "ping"}}), nullptr);
  // Even where a process has opened it.
  ASSERT_EQ(chmod(socket_.c_str(), 0666), 0);
  EXPECT_EQ(CodeOf(AskAs({"no root", "/", kUser, true}, Json{{"op", "ping"}})), "EACCES");
  EXPECT_TRUE(Has(DaemonLog(), "refused: uid 61001"));
}

}  // namespace
}  // namespace ppc::control
