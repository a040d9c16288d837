// SPDX-License-Identifier: Apache-2.0
// `ppcctl artifact` and `ppcctl run --artifacts`, with the files of a made-up engine.
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/unit/supervisor/daemon_fixture.h"

namespace ppc::control {
namespace {

namespace fs = std::filesystem;

class ArtifactVerbsTest : public DaemonTest {
 protected:
  void SetUp() override {
    DaemonTest::SetUp();
    cache_ = dir_ + "/home/.triton/cache";
    store_ = dir_ + "/artifacts/" + std::to_string(geteuid());
    for (const char* directory : {"/home", "/tmp", "/xdg"})
      fs::create_directories(dir_ + directory);
    fs::permissions(dir_ + "/home", fs::perms::owner_all);
    for (const char* variable : {"HOME=", "TMPDIR=", "PPC_ARTIFACT_DIR="}) {
      std::erase_if(environment_,
                    [&](const std::string& entry) { return entry.starts_with(variable); });
    }
    environment_.push_back("HOME=" + dir_ + "/home");
    environment_.push_back("TMPDIR=" + dir_ + "/tmp");
    environment_.push_back("XDG_RUNTIME_DIR=" + dir_ + "/xdg");
    environment_.push_back("PPC_ARTIFACT_DIR=" + dir_ + "/artifacts");
    environment_.push_back("TRITON_CACHE_DIR=" + cache_);
    config_ = R"({"fake":{"log":")" + dir_ + R"(/runner.log"}})";
  }
  // A start that compiles missing files and counts them.
  std::string Engine(const std::string& and_then = "true") const {
    return "mkdir -p " + cache_ + "/k && if [ ! -s " + cache_ +
           "/k/kernel ]; then echo compiled >> " + dir_ + "/compiler; echo binary > " + cache_ +
           "/k/kernel; fi; " + and_then;
  }
  size_t Compilations() { return CountOf("\n", ReadText(dir_ + "/compiler")); }
  ProcessResult Run(const std::string& script, std::vector<std::string> options = {}) {
    std::vector<std::string> words = {"run", "--artifacts", "--id", "svc1"};
    words.insert(words.end(), options.begin(), options.end());
    words.insert(words.end(), {"--", "/bin/sh", "-c", script});
    return Ctl(words);
  }
  // With a policy: starts the service, on /proc.
  ProcessResult RunAsService(const std::string& script, std::vector<std::string> options = {}) {
    options.insert(options.end(), {"--policy", "alpha", "--config", config_, "/proc"});
    return Run(script, options);
  }
  // Its exit status and message.
  static void Expect(const ProcessResult& result, int exit_status, const std::string& part) {
    EXPECT_EQ(result.exit_status, exit_status) << result.err;
    EXPECT_TRUE(Has(result.err, part));
  }
  Json JsonOf(std::vector<std::string> words, int exit_status) {
    words.emplace_back("--json");
    const ProcessResult result = Ctl(words);
    EXPECT_EQ(result.exit_status, exit_status) << result.err;
    const Result<Json> json = ParseJsonObject(result.out, words[1]);
    EXPECT_TRUE(json) << result.out;
    return json ? *json : Json::object();
  }
  void Capture() {
    fs::create_directories(cache_ + "/k");
    std::ofstream(cache_ + "/k/kernel") << "binary";
    Out({"artifact", "capture", "--id", "svc1"});
  }

  void SpoilObjects() {
    for (const auto& entry : fs::recursive_directory_iterator(store_ + "/objects"))
      if (entry.is_regular_file()) std::ofstream(entry.path()) << "change";
  }

  std::string cache_;
  std::string store_;
  std::string config_;
};

TEST_F(ArtifactVerbsTest, ASecondStartCompilesNothing) {
  Expect(Run(Engine()), 0, "1 files captured");
  EXPECT_EQ(Compilations(), 1U);
  fs::remove_all(dir_ + "/home");
  const ProcessResult second = Run(Engine());
  Expect(second, 0, "1 files restored");
  EXPECT_EQ(second.err.find("captured"), std::string::npos) << "nothing has changed";
  EXPECT_EQ(Compilations(), 1U);
  EXPECT_EQ(ReadText(cache_ + "/k/kernel"), "binary\n");
}

// The second start gets both the compiled files and a value that the engine computed.
TEST_F(ArtifactVerbsTest, ASecondStartHasWhatTheFirstKeptForItToo) {
  const std::string start = Engine("[ -n \"$KV_BYTES\" ] && echo \"kept $KV_BYTES\" || " + kPpcctl +
                                   " service env svc1 KV_BYTES=4096");
  const ProcessResult first = Run(start, {"--env-from-service"});
  EXPECT_EQ(first.out, "");
  Expect(first, 0, "1 files captured");
  fs::remove_all(dir_ + "/home");
  const ProcessResult second = Run(start, {"--env-from-service"});
  EXPECT_EQ(second.out, "kept 4096\n");
  Expect(second, 0, "1 files restored");
  EXPECT_EQ(Compilations(), 1U);
  // Removing the bundles keeps the value, and removing the value keeps the bundles.
  EXPECT_EQ(Ctl({"artifact", "rm", "svc1"}).exit_status, 0);
  EXPECT_EQ(Run(start, {"--env-from-service"}).out, "kept 4096\n");
  EXPECT_EQ(Ctl({"service", "env", "svc1", "KV_BYTES="}).exit_status, 0);
  EXPECT_EQ(JsonOf({"artifact", "list"}, 0)["bundles"].size(), 1U);
}

TEST_F(ArtifactVerbsTest, AnotherKeyOrCommandCompilesAnew) {
  Run(Engine());
  fs::remove_all(dir_ + "/home");
  Expect(Run(Engine(), {"--key", "quant=fp8"}), 0,
         "nothing is restored, they are for another key: quant is 'fp8', there was none");
  EXPECT_EQ(Compilations(), 2U);
  fs::remove_all(dir_ + "/home");
  Expect(Run(Engine("echo other options")), 0, "config is '");
  EXPECT_EQ(Compilations(), 3U);
}

TEST_F(ArtifactVerbsTest, AStartThatFailsBeforeItIsReadyIsNotCaptured) {
  EXPECT_EQ(Run(Engine("exit 3")).exit_status, 3);
  EXPECT_FALSE(fs::exists(store_));
}

TEST_F(ArtifactVerbsTest, ReadinessByItsOutputCaptures) {
  const ProcessResult result =
      Run(Engine("echo up and running; exit 3"), {"--ready-on", "and run"});
  EXPECT_EQ(result.out, "up and running\n");
  Expect(result, 3, "1 files captured");
}

// Reported by the command itself, to ppcd and not to ppcctl.
TEST_F(ArtifactVerbsTest, ReadinessByTheVerbCaptures) {
  Expect(RunAsService(Engine(kPpcctl + " service ready; exit 3")), 3, "1 files captured");
  EXPECT_EQ(CountOf("service_ready", RunnerLog()), 1U) << RunnerLog();
}

TEST_F(ArtifactVerbsTest, WithAServiceReadinessIsToldAndCaptured) {
  const std::string until_told =
      "until grep -q service_ready " + dir_ + "/runner.log; do sleep 0.05; done; ";
  Expect(RunAsService(Engine("echo up and running; " + until_told + "exit 3"),
                      {"--ready-on", "up and"}),
         3, "1 files captured");
}

TEST_F(ArtifactVerbsTest, RunFailsOpen) {
  Run(Engine());
  const auto run_with_warning = [this](const std::string& part) {
    fs::remove_all(dir_ + "/home");
    const ProcessResult result = Run(Engine("exit 5"));
    Expect(result, 5, "warning: artifacts: ");
    EXPECT_TRUE(Has(result.err, part));
  };
  SpoilObjects();
  // Another script than captured: the bundle with the old key is unused.
  fs::remove_all(dir_ + "/home");
  Expect(Run(Engine()), 0, "is damaged; nothing is restored");
  EXPECT_EQ(Compilations(), 2U);
  run_with_warning("config is '");
  fs::permissions(store_, fs::perms::all);
  run_with_warning("chmod 700");
  Expect(Run("exit 6", {"--root", "nonsense"}), 6, "--root 'nonsense' is not NAME=DIR");
}

// Another ppcctl that holds the removal's lock and hangs.
TEST_F(ArtifactVerbsTest, RunDoesNotWaitForWhoKeepsTheLock) {
  Run(Engine());
  const UniqueFd lock(open((store_ + "/lock").c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(flock(lock.Get(), LOCK_EX), 0);
  Expect(Run("exit 5"), 5, "warning: artifacts: another ppcctl keeps " + store_ + "/lock");
}

TEST_F(ArtifactVerbsTest, RunTakesTheirOptionsWithThemAlone) {
  const ProcessResult result = Ctl({"run", "--key", "a=b", "--", "/bin/echo", "ran"});
  EXPECT_EQ(result.out, "");
  ExpectFailure(result, 125, "give --artifacts, too");
}

TEST_F(ArtifactVerbsTest, TellAsJson) {
  Capture();
  Json list = JsonOf({"artifact", "list"}, 0);
  ASSERT_EQ(list["bundles"].size(), 1U);
  const Json bundle = list["bundles"][0];
  EXPECT_EQ(bundle["service_id"], "svc1");
  EXPECT_EQ(bundle["files"], 1);
  EXPECT_EQ(bundle["bytes"], 6);
  EXPECT_TRUE(bundle["key"].contains("cpu"));
  EXPECT_EQ(bundle["roots"]["triton"], cache_);
  EXPECT_EQ(list["schema"], 1);
  fs::remove_all(dir_ + "/home");
  EXPECT_EQ(JsonOf({"artifact", "restore", "--id", "svc1"}, 0)["files"], 1);
  const Json again = JsonOf({"artifact", "capture", "--id", "svc1"}, 0);
  EXPECT_EQ(again["bundle"], bundle["bundle"]);
  EXPECT_EQ(JsonOf({"artifact", "verify", bundle["bundle"]}, 0)["bundles"].size(), 1U);
  Json other = JsonOf({"artifact", "restore", "--id", "svc1", "--key", "gpu=another"}, 1);
  EXPECT_EQ(other["ok"], false);
  EXPECT_EQ(other["differences"][0]["part"], "gpu");
  EXPECT_EQ(other["differences"][0]["here"], "another");
  EXPECT_EQ(other["nearest"], bundle["bundle"]);
  EXPECT_EQ(JsonOf({"artifact", "rm", "svc1"}, 0)["bundles"], 1);
  EXPECT_TRUE(JsonOf({"artifact", "list"}, 0)["bundles"].empty());
}

TEST_F(ArtifactVerbsTest, VerifyFindsWhatListDoesNotRead) {
  Capture();
  EXPECT_EQ(Ctl({"artifact", "verify"}).exit_status, 0);
  SpoilObjects();
  EXPECT_EQ(Ctl({"artifact", "list"}).err, "");
  ExpectFailure(Ctl({"artifact", "verify"}), 1,
                "of 'k/kernel' is damaged; capture anew after: ppcctl artifact rm svc1/");
}

TEST_F(ArtifactVerbsTest, RmWithoutAnOperandRemovesWhatNoBundleNeeds) {
  Capture();
  fs::create_directories(store_ + "/objects/ff");
  std::ofstream(store_ + "/objects/ff/unused.raw") << "unused";
  const Json removed = JsonOf({"artifact", "rm"}, 0);
  EXPECT_EQ(removed["bundles"], 0);
  EXPECT_EQ(removed["objects"], 1);
  EXPECT_EQ(JsonOf({"artifact", "list"}, 0)["bundles"].size(), 1U);
}

TEST_F(ArtifactVerbsTest, SayWhatIsWrongInOneLine) {
  EXPECT_EQ(Out({"artifact", "list"}), "") << "before the first";
  const auto refused = [this](const std::vector<std::string>& words, int exit_status,
                              const std::string& part) {
    ExpectFailure(Ctl(words), exit_status, part);
  };
  refused({"artifact", "restore", "--id", "svc1"}, 1, "nothing was captured yet");
  refused({"artifact", "capture", "--id", "svc1"}, 1, "nothing to capture");
  refused({"artifact", "capture"}, 2, "--id ID");
  refused({"artifact", "capture", "--id", "../x"}, 2, "");
  refused({"artifact", "capture", "--id", "svc1", "--key", "x"}, 2, "NAME=VALUE");
  refused({"artifact", "capture", "--id", "svc1", "--root", "x"}, 2, "NAME=DIR");
  refused({"artifact", "capture", "--id", "svc1", "--limit", "x"}, 2, "--limit");
  refused({"artifact", "capture", "--id", "svc1", "--compress", "x"}, 2, "--compress");
  Capture();
  refused({"artifact", "verify", "svc2"}, 1, "there is no bundle svc2");
  refused({"artifact", "rm", "svc1/x"}, 2, "ID/KEY");
  refused({"artifact", "restore", "--id", "svc2"}, 1, "nothing was captured of service svc2");
}

}  // namespace
}  // namespace ppc::control
