// SPDX-License-Identifier: Apache-2.0
// What every verb owes its caller: exit status, one line on stderr, one object with --json.
#include <utility>

#include "tests/unit/supervisor/daemon_fixture.h"
#include "tools/ppcctl/text.h"

namespace ppc::control {
namespace {

class CtlOutputTest : public DaemonTest {};

TEST_F(CtlOutputTest, WrongUsageIs2) {
  const std::vector<std::vector<std::string>> cases = {
      {"bind-pid"},
      {"bind-pid", "x"},
      {"bind-pid", "0"},
      {"bind-pid", "12x"},
      {"nonsense"},
      {"service"},
      {"reg_policy"},
      {"reg_policy", "/proc"},
      {"reg_policy", "/proc", "alpha", "{}", "more"},
      {"reg_policy", "/proc", "alpha", "{malformed"},
      {"reg_policy", "/proc", "alpha", "@/no/such/file"},
      {"reg_policy", "/proc", "alpha", "--timeout", "soon"},
      {"list", "operand"},
      {"list", "--nonsense"},
      {"list", "--json=yes"},
      {"status", "--", "x"},
      {"statuz"},
      {"service", "nonsense"},
      {"service", "start", "/proc"},
      {"service", "start", "/proc", "--param", "novalue"},
      {"service", "start", "/proc", "--id", "abcd", "--xpu", "0,x"},
      {"service", "start", "/proc", "--id", "abcd", "--workers", "-2"},
      {"service", "stop"},
      {"service-id"},
      {"service-id", "--param"},
  };
  for (const auto& arguments : cases) {
    ExpectFailure(Ctl(arguments), 2);
  }
}

TEST_F(CtlOutputTest, HelpIsOnStdoutAndFine) {
  const ProcessResult all = Ctl({"--help"});
  EXPECT_EQ(all.exit_status, 0);
  for (const char* verb : {"reg_policy", "rm_policy", "service start", "run", "service-id", "list",
                           "status", "xpus"}) {
    EXPECT_TRUE(Has(all.out, verb)) << verb;
  }
  EXPECT_TRUE(Has(Out({"service", "start", "--help"}), "--xpu LIST"));
  EXPECT_EQ(Ctl({"--version"}).exit_status, 0);
  EXPECT_EQ(Ctl({}).exit_status, 2);
}

TEST_F(CtlOutputTest, JsonMayComeFirst) {
  const ProcessResult usage = Ctl({"--json", "statuz"});
  EXPECT_EQ(usage.exit_status, 2);
  const Json told = Json::parse(usage.out, nullptr, false);
  EXPECT_TRUE(Has(told["error"].get<std::string>(), "did you mean 'status'")) << usage.out;
  const Json xpus = Json::parse(Ctl({"-j", "xpus"}).out, nullptr, false);
  EXPECT_TRUE(xpus.contains("xpus")) << xpus;
  const ProcessResult id =
      Ctl({"--json", "service", "start", "/proc", "--id", "abcd", "--workers", "-3"});
  EXPECT_TRUE(Has(id.out, "'-3'"));
  EXPECT_EQ(Ctl({"--json", "run", "/proc", "--", "/bin/echo", "--json"}).out, "--json\n");
}

TEST_F(CtlOutputTest, WrongUsageOfRunIsNoStatusOfACommand) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"run", "/proc", "--id", "abcd"},
        {"run", "--nonsense", "/proc", "--", "/bin/true"},
        {"run", "--workers", "x", "/proc", "--", "/bin/true"}}) {
    ExpectFailure(Ctl(arguments), 125);
  }
}

TEST_F(CtlOutputTest, JsonIsOneObjectWhateverHappens) {
  const std::vector<std::pair<std::vector<std::string>, int>> failing = {
      {{"list", "--json"}, 3},
      {{"list", "--json", "operand"}, 2},
      {{"statuz", "-j"}, 2},
      {{"service", "failed", "--json", "/proc"}, 2}};
  for (const auto& [arguments, status] : failing) {
    ExpectJsonFailure(Ctl(arguments), status);
  }
  Start();
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"list"},
        {"status"},
        {"reg_policy", "/sys", "beta"},
        {"service", "start", "/sys", "--id", "svc-json"},
        {"service", "ready", "/sys", "--id", "svc-json"},
        {"service", "stop", "/sys", "--id", "svc-json"},
        {"policy", "/sys", R"({"op":"hello"})"},
        {"rm_policy", "/sys"},
        {"service-id", "--param", "a=1"}}) {
    std::vector<std::string> with = arguments;
    with.emplace_back("--json");
    const ProcessResult result = Ctl(with);
    EXPECT_EQ(result.exit_status, 0) << arguments[0] << result.err;
    const Result<Json> json = ParseJsonObject(result.out, "output");
    ASSERT_TRUE(json) << arguments[0] << result.out;
    EXPECT_EQ((*json)["schema"], 1) << arguments[0];
  }
}

TEST_F(CtlOutputTest, RunWithJsonLeavesTheOutputToTheCommand) {
  environment_.push_back("PPC_RUNNER=/no/such/runner");
  environment_.push_back("XDG_RUNTIME_DIR=" + dir_);
  const ProcessResult result =
      Ctl({"run", "--json", "--policy", "alpha", "/proc", "--", "/bin/sh", "-c",
           "echo ran; " + std::string(PPC_TEST_BIN_DIR) + "/ppcctl list >/dev/null 2>&1; true"});
  EXPECT_EQ(result.exit_status, 0);
  EXPECT_EQ(result.out, "ran\n");
  const Json message = Value(ParseJsonObject(result.err, "message"));
  EXPECT_EQ(message["schema"], 1);
  EXPECT_TRUE(Has(message.value("message", ""), "/no/such/runner"));
}

TEST_F(CtlOutputTest, StatusIsInOrderAndSaysIfOneFailed) {
  StartDaemon();
  // The first to be asked answers last.
  ASSERT_TRUE(Register({{"status_ms", 100}}, "alpha", "/proc").value("ok", false));
  ASSERT_TRUE(Register(Json::object(), "beta", "/sys").value("ok", false));
  const ProcessResult well = Ctl({"status", "--json"});
  EXPECT_EQ(well.exit_status, 0);
  const Json status = *ParseJson(well.out, "status");
  ASSERT_EQ(status["mounts"].size(), 2U);
  EXPECT_EQ(status["mounts"][0]["mount"], "/proc");
  EXPECT_TRUE(status["mounts"][0].contains("runner"));
  EXPECT_EQ(status["mounts"][1]["mount"], "/sys");
  ASSERT_EQ(Ctl({"rm_policy", "/sys"}).exit_status, 0);
  ASSERT_TRUE(Register({{"drop_after_ms", 1}}, "beta", "/sys").value("ok", false));
  ASSERT_TRUE(WaitForState("failed", "/sys"));
  EXPECT_EQ(Ctl({"status"}).exit_status, 1);
  EXPECT_EQ(Ctl({"status", "/sys", "--json"}).exit_status, 1);
  EXPECT_EQ(Ctl({"status", "/proc"}).exit_status, 0);
}

TEST_F(CtlOutputTest, StatusSaysWhatTheGuardWithholds) {
  StartDaemon();
  const auto guarded = [](const char* id, const char* state, const char* reason) {
    return Json{{"service_id", id}, {"guard", {{"state", state}, {"reason", reason}}}};
  };
  const Json services = {guarded("svc-one", "no_unmap", "33 MiB that were dropped"),
                         guarded("svc-two", "open", ""), guarded("auto-1", "no_loads", "x"),
                         guarded("", "small_window", "y")};
  ASSERT_TRUE(
      Register({{"status", {{"services", services}}}}, "alpha", "/proc").value("ok", false));
  for (const char* id : {"svc-one", "svc-two"})
    ASSERT_EQ(Ctl({"service", "start", "/proc", "--id", id}).exit_status, 0);
  const std::string text = Ctl({"status"}).out;
  EXPECT_TRUE(Has(text, "\n    guard no_unmap: 33 MiB that were dropped\n  service svc-two"));
  EXPECT_TRUE(Has(text, "\n  auto-1  guard no_loads: x\n"));
  EXPECT_TRUE(Has(text, "\n  guard small_window: y\n"));
  EXPECT_FALSE(Has(text, "guard open"));
}

TEST_F(CtlOutputTest, AnAbsentDaemonIs3AndNamesTheSocket) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"list"},
        {"status"},
        {"reg_policy", "/proc", "alpha"},
        {"rm_policy", "/proc"},
        {"service", "start", "/proc", "--id", "abcd"}}) {
    ExpectFailure(Ctl(arguments), 3, socket_);
  }
}

TEST_F(CtlOutputTest, ADaemonThatRefusesIs1) {
  Start();
  ExpectFailure(Ctl({"reg_policy", "/proc", "beta"}), 1, "rm_policy");
  EXPECT_EQ(Ctl({"rm_policy", "/sys"}).exit_status, 1);
  EXPECT_EQ(Ctl({"status", "/no/such"}).exit_status, 1);
}

TEST(Text, TablesAndUnits) {
  EXPECT_EQ(ctl::Table({{"a", "bbb", "c"}, {"aaaa", "b", "cc"}}), "a     bbb  c\naaaa  b    cc\n");
  EXPECT_EQ(ctl::HumanCounter("loader.loaded", 1 << 20), "1.0 MiB");
  EXPECT_EQ(ctl::HumanCounter("loader.chunks", 1024), "1024");
  EXPECT_EQ(ctl::HumanCounter("loader.latency_us", 7), "7 us");
  EXPECT_EQ(ctl::HumanCounter("evictor.ranges", 2048), "2048");
  EXPECT_EQ(ctl::HumanCounter("services.0.memory.limit", 4096), "4.0 KiB");
  EXPECT_EQ(ctl::HumanSeconds(3.25), "3.2 s");
  EXPECT_EQ(ctl::HumanSeconds(250), "4 min 10 s");
  EXPECT_EQ(ctl::HumanSeconds(7500), "2 h 5 min");
  EXPECT_EQ(ctl::HumanSeconds(273600), "3 d 4 h");
}

TEST(Text, Sizes) {
  EXPECT_EQ(ctl::HumanBytes(0), "0 B");
  EXPECT_EQ(ctl::HumanBytes(1536), "1.5 KiB");
  EXPECT_EQ(ctl::HumanBytes(uint64_t{3} << 30), "3.0 GiB");
}

}  // namespace
}  // namespace ppc::control
