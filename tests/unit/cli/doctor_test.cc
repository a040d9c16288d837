// SPDX-License-Identifier: Apache-2.0
// Causes that no machine of ours has: made up below a root of one's own.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "policies/maio/template/template.h"
#include "tests/unit/temp_tree.h"
#include "tools/ppcctl/doctor/checks.h"
#include "tools/ppcctl/text.h"

namespace ppc::ctl {
namespace {

constexpr const char* kAllCapabilities = "Uid:\t0\t0\t0\t0\nCapEff:\t000001ffffffffff\n";

class DoctorTest : public testing::Test {
 protected:
  DoctorTest() {
    patient_.roots = {tree_.Root(), tree_.Root()};
    patient_.host = tree_.Root();
    patient_.release = "6.1.0-1-amd64";
    patient_.daemon = {{"pid", 42}};
    tree_.Write("/sys/kernel/btf/vmlinux", "");
    tree_.Write("/sys/kernel/security/lockdown", "[none] integrity confidentiality\n");
    tree_.Write("/proc/42/status", kAllCapabilities);
    tree_.Write("/proc/self/mountinfo", "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n");
    look_.path = look_.parent = "/models";
    look_.mount = {{"mount", "/models"}, {"state", "running"}, {"backend", "observer"},
                   {"policy", "maio"},   {"pid", 0},           {"services", Json::array()}};
  }
  void WithFstab() {
    tree_.Write("/etc/fstab",
                "# a comment\n/dev/sda1 / ext4 defaults 0 1\n/models /models ppc defaults 0 0\n");
  }
  void Poll() {
    look_.mount["backend"] = "poll";
    patient_.directories = {look_};
  }
  Findings Machine() {
    Findings found;
    CheckMachine(patient_, &found);
    return found;
  }
  Findings Services() {
    Findings found;
    CheckServices(patient_, look_, &found);
    return found;
  }
  // "code remedy" of the only one; all codes where there are more.
  static std::string Only(const Findings& found) {
    if (found.size() == 1) return found[0].code + " " + found[0].remedy;
    std::string codes;
    for (const Finding& each : found) codes += each.code + ";";
    return codes;
  }
  TempTree tree_;
  Patient patient_;
  DirectoryLook look_;
};

TEST_F(DoctorTest, AHealthyMachineHasNothing) {
  patient_.directories = {look_};
  EXPECT_EQ(Only(Machine()), "");
  EXPECT_EQ(Only(Services()), "");
  Findings found;
  CheckDaemon(patient_, &found);
  CheckCommand(patient_, &found);
  EXPECT_EQ(Only(found), "");
}

TEST_F(DoctorTest, AMountOfFstabWithoutAModule) {
  WithFstab();
  EXPECT_EQ(Only(Machine()), "no-module dkms autoinstall -k 6.1.0-1-amd64 && mount /models");
  tree_.Write("/lib/modules/6.1.0-1-amd64/updates/dkms/ppc.ko", "an unsigned one");
  EXPECT_EQ(Only(Machine()), "no-module modprobe ppc && mount /models");
  tree_.Write("/sys/module/ppc/refcnt", "0\n");
  EXPECT_EQ(Only(Machine()), "not-mounted mount /models");
  tree_.Write("/proc/self/mountinfo",
              "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n23 22 0:50 / /models ro - ppc /models ro\n");
  EXPECT_EQ(Only(Machine()), "");
}

TEST_F(DoctorTest, AnUnsignedModuleUnderLockdown) {
  WithFstab();
  tree_.Write("/sys/kernel/security/lockdown", "none [integrity] confidentiality\n");
  tree_.Write("/lib/modules/6.1.0-1-amd64/updates/dkms/ppc.ko", "an unsigned one");
  const Findings found = Machine();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].code, "unsigned-module");
  tree_.Write("/lib/modules/6.1.0-1-amd64/updates/dkms/ppc.ko",
              "a signed one~Module signature appended~\n");
  EXPECT_EQ(Only(Machine()), "no-module modprobe ppc && mount /models");
}

TEST_F(DoctorTest, TheObserverCannotAttach) {
  Poll();
  EXPECT_EQ(Only(Machine()), "");
  tree_.Write("/proc/42/status", "Uid:\t0\t0\t0\t0\nCapEff:\t0000000000000004\n");
  Findings found = Machine();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].code, "no-capability");
  EXPECT_EQ(found[0].cause.substr(0, found[0].cause.find(", so")),
            "it lacks CAP_SYS_PTRACE, CAP_SYS_NICE, CAP_PERFMON, CAP_BPF");
  tree_.Write("/sys/kernel/security/lockdown", "none integrity [confidentiality]\n");
  EXPECT_EQ(Machine().at(0).code, "lockdown");
  std::filesystem::remove(tree_.Path("/sys/kernel/btf/vmlinux"));
  EXPECT_EQ(Machine().at(0).code, "no-btf");
  // Who is served by the module or the observer has nothing of it.
  look_.mount["backend"] = "observer";
  patient_.directories = {look_};
  EXPECT_EQ(Only(Machine()), "");
}

TEST_F(DoctorTest, DevicesOfMounts) {
  tree_.Write("/sys/fs/ppc/3/state", "native\n");
  patient_.directories = {look_};
  EXPECT_EQ(Only(Machine()), "no-device udevadm trigger --action=add --subsystem-match=ppc");
  tree_.Write("/dev/ppc3", "");
  EXPECT_EQ(Only(Machine()), "");
  tree_.Write("/proc/42/status", "Uid:\t977\t977\t977\t977\nCapEff:\t000000c000880004\n");
  EXPECT_EQ(Only(Machine()), "device-permission systemctl restart ppcd");
}

TEST_F(DoctorTest, ADaemonThatDoesNotAnswer) {
  patient_.daemon_error = ECONNREFUSED;
  Findings found;
  CheckDaemon(patient_, &found);
  EXPECT_EQ(Only(found), "daemon-down ppcd &") << "no service manager";
  std::filesystem::create_directories(tree_.Path("/run/systemd/system"));
  found.clear();
  CheckDaemon(patient_, &found);
  EXPECT_EQ(Only(found), "daemon-down systemctl start ppcd");
  patient_.socket = "/tmp/own.sock";
  found.clear();
  CheckDaemon(patient_, &found);
  EXPECT_EQ(Only(found),
            "daemon-down ppcd --socket /tmp/own.sock --state-dir /tmp/own.sock.state &")
      << "not the manager's";
  patient_.socket = "/run/my ppc/ppcd.sock";
  found.clear();
  CheckDaemon(patient_, &found);
  EXPECT_EQ(Only(found),
            "daemon-down ppcd --socket '/run/my ppc/ppcd.sock' --state-dir '/run/my ppc' &");
  patient_.daemon_error = ETIMEDOUT;
  found.clear();
  CheckDaemon(patient_, &found);
  EXPECT_EQ(Only(found), "daemon-hangs systemctl restart ppcd");
  tree_.Write("/proc/77/comm", "ppcd\n");
  tree_.Write("/proc/77/status", "Name:\tppcd\nState:\tT (stopped)\n");
  found.clear();
  CheckDaemon(patient_, &found);
  EXPECT_EQ(Only(found), "daemon-hangs kill -CONT 77");
}

TEST_F(DoctorTest, AServiceWhoseTemplateIsOfAnotherLoader) {
  look_.mount["services"] = {{{"service_id", "svc-one"}, {"workers", 1}}};
  look_.policy = {{"services",
                   {{{"service_id", "svc-one"},
                     {"matched", uint64_t{100} << 20},
                     {"unknown", uint64_t{90} << 20}}}}};
  // Without a template nothing differs from it.
  EXPECT_EQ(Only(Services()), "");
  patient_.template_dir = tree_.Path("/templates");
  std::filesystem::create_directories(patient_.template_dir);
  maio::Template t;
  t.service_id = "svc-one";
  std::string error;
  ASSERT_EQ(maio::Store(patient_.template_dir, t, &error), 0) << error;
  EXPECT_EQ(Only(Services()),
            "template-differs ppcctl template rerecord svc-one --dir " + patient_.template_dir);
  look_.policy["services"][0]["unknown"] = uint64_t{2} << 20;
  EXPECT_EQ(Only(Services()), "");
}

TEST_F(DoctorTest, ACgroupThatMayNotReadFast) {
  struct stat info {};
  ASSERT_EQ(stat(tree_.Root().c_str(), &info), 0);
  const std::string disk =
      std::to_string(major(info.st_dev)) + ":" + std::to_string(minor(info.st_dev));
  look_.path = tree_.Root();
  look_.mount["services"] = {{{"service_id", "svc-one"}, {"cgroup", "/svc"}}};
  tree_.Write("/sys/fs/cgroup/cgroup.controllers", "io memory\n");
  tree_.Write("/sys/fs/cgroup/svc/memory.max", "max\n");
  tree_.Write("/sys/fs/cgroup/svc/io.max", disk + " rbps=max wbps=max riops=max wiops=max\n");
  EXPECT_EQ(Only(Services()), "");
  tree_.Write("/sys/fs/cgroup/svc/io.max", disk + " rbps=1048576 wbps=max riops=max wiops=max\n");
  EXPECT_EQ(Only(Services()), "io-limit echo '" + disk + " rbps=max riops=max' > " +
                                  tree_.Path("/sys/fs/cgroup/svc/io.max"));
}

TEST_F(DoctorTest, EventsThatWereLost) {
  look_.mount["runner"]["device"] = {{"events_lost", 3}, {"events_queued", 1000}};
  EXPECT_EQ(Only(Services()), "");
  look_.mount["runner"]["device"]["events_lost"] = 30;
  EXPECT_EQ(Only(Services()),
            "events-lost ppcctl rm_policy /models && ppcctl reg_policy /models maio");
}

TEST_F(DoctorTest, ADiskThatIsBusyIsWorthKnowing) {
  look_.mount["services"] = {{{"service_id", "svc-one"}}};
  look_.policy = {
      {"services", {{{"service_id", "svc-one"}, {"standing_down", true}, {"device_mbps", 20}}}}};
  const Findings found = Services();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].code, "device-slow");
  EXPECT_FALSE(found[0].is_problem);
}

TEST_F(DoctorTest, AnEnginesOwnPrefetch) {
  const auto of_words = [this](std::vector<std::string> words) {
    patient_.command = std::move(words);
    Findings found;
    CheckCommand(patient_, &found);
    return Only(found);
  };
  const std::string lazy = "own-prefetch start it with --safetensors-load-strategy lazy";
  EXPECT_EQ(of_words({"vllm", "serve", "m", "--safetensors-load-strategy", "eager"}), lazy);
  EXPECT_EQ(of_words({"vllm", "serve", "m", "--safetensors-load-strategy=prefetch"}), lazy);
  EXPECT_EQ(of_words({"vllm", "serve", "m", "--safetensors-load-strategy", "lazy"}), "");
  EXPECT_EQ(of_words({"sglang", "--weight-loader-prefetch-checkpoints"}),
            "own-prefetch start it without --weight-loader-prefetch-checkpoints");
}

TEST_F(DoctorTest, AFailedPolicyIsRegisteredAgain) {
  look_.mount["state"] = "failed";
  look_.mount["last_error"] = "it crashed";
  Findings found;
  CheckDirectory(patient_, look_, &found);
  EXPECT_EQ(Only(found),
            "policy-failed ppcctl rm_policy /models && ppcctl reg_policy /models maio");
  look_.mount["config"] = {{"standby", 20}};
  found.clear();
  CheckDirectory(patient_, look_, &found);
  EXPECT_TRUE(Only(found).ends_with("reg_policy /models maio '{\"standby\":20}'")) << Only(found);
}

TEST_F(DoctorTest, ADirectoryIsMissedWhereRegisteringIsTheRemedy) {
  const auto directory = [this] {
    Findings found;
    CheckDirectory(patient_, look_, &found);
    return Only(found);
  };
  look_.parent.clear();
  look_.mount = nullptr;
  EXPECT_EQ(directory(), "not-registered ppcctl reg_policy /models maio");
  patient_.daemon["off"] = true;
  EXPECT_EQ(directory(), "") << "nothing is registered while it is off";
}

TEST_F(DoctorTest, AModelIsCachedBecauseItIsBeingLoaded) {
  const std::string file = tree_.Path("/models/m.safetensors");
  tree_.Write("/models/m.safetensors", std::string(1 << 20, 'x'));
  const int fd = open(file.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(fsync(fd), 0);  // not dirty
  close(fd);
  look_.path = tree_.Path("/models");
  look_.model_files = {file};
  const auto directory = [this] {
    Findings found;
    CheckDirectory(patient_, look_, &found);
    return Only(found);
  };
  EXPECT_EQ(directory(), "cached ppcctl drop " + look_.path);
  look_.mount["services"] = {{{"service_id", "svc"}, {"state", "started"}}};
  EXPECT_EQ(directory(), "");
  look_.mount["services"][0]["state"] = "ready";
  EXPECT_EQ(directory(), "cached ppcctl drop " + look_.path);
}

TEST_F(DoctorTest, WordsOfAShell) {
  EXPECT_EQ(ShellWord("/models/a-b_1.0"), "/models/a-b_1.0");
  EXPECT_EQ(ShellWord("it's here"), "'it'\\''s here'");
  EXPECT_EQ(ShellWord(""), "''");
}

}  // namespace
}  // namespace ppc::ctl
