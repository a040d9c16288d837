// SPDX-License-Identifier: Apache-2.0
// Causes that our machines do not have, made up below a root of their own.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "daemon/base/files.h"
#include "extras/doctor/tests/doctor_fixture.h"
#include "policies/maio/template/template.h"
#include "tools/ppcctl/text.h"

namespace ppc::ctl {
namespace {

TEST_F(DoctorTest, AHealthyMachineHasNothing) {
  snapshot_.directories = {dir_};
  EXPECT_EQ(Only(Machine()), "");
  EXPECT_EQ(Only(Services()), "");
  EXPECT_EQ(OfDaemon() + OfCommand(), "");
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
  EXPECT_NE(found[0].cause.find("mokutil --import"), std::string::npos);
  // Other lines are ignored.
  const std::string others = "# /models /models ppc\n/models.old /models.old ppc-not x 0 0\n";
  tree_.Write("/etc/fstab", others + "/models\t/models   ppc defaults 0 0\n");
  ASSERT_EQ(system(Machine().at(0).remedy.c_str()), 0) << found[0].remedy;
  EXPECT_EQ(*ReadFile(tree_.Path("/etc/fstab")),
            others + "# /models\t/models   ppc defaults 0 0\n");
  EXPECT_EQ(Only(Machine()), "");
  WithFstab();
  tree_.Write("/lib/modules/6.1.0-1-amd64/updates/dkms/ppc.ko",
              "a signed one~Module signature appended~\n");
  EXPECT_EQ(Only(Machine()), "no-module modprobe ppc && mount /models");
}

// Programs that change the tree as the real ones change a machine, and fail where those would.
TEST_F(DoctorTest, WhatIsPrintedForAMountClearsIt) {
  const std::string root = tree_.Root();
  const auto program = [this, &root](const char* name, const std::string& script) {
    tree_.Write(std::string("/bin/") + name, "#!/bin/sh -e\ncd " + ShellWord(root) + "\n" + script);
    ASSERT_EQ(chmod(tree_.Path(std::string("/bin/") + name).c_str(), 0755), 0);
  };
  const std::string module = "lib/modules/6.1.0-1-amd64/updates/dkms/ppc.ko";
  program("dkms", "[ \"$1 $2 $3\" = 'autoinstall -k 6.1.0-1-amd64' ]\nmkdir -p $(dirname " +
                      module + ")\ntouch " + module + "\n");
  program("modprobe",
          "[ $1 = ppc ] && [ -e " + module + " ]\nmkdir -p sys/module/ppc sys/fs/ppc/3\n");
  // The kernel loads a file system's module itself.
  program("mount",
          "grep -q \" $1 ppc\" etc/fstab\nbin/modprobe ppc\n"
          "echo \"23 22 0:50 / $1 ro - ppc $1 ro\" >>proc/self/mountinfo\n");
  program("udevadm",
          "[ \"$*\" = 'trigger --action=add --subsystem-match=ppc' ]\n"
          "mkdir -p dev\nfor each in sys/fs/ppc/*; do touch dev/ppc${each##*/}; done\n");
  const auto cure = [this, &root](const char* code) {
    const Findings found = Machine();
    ASSERT_EQ(found.size(), 1U) << Only(found);
    ASSERT_EQ(found[0].code, code);
    const std::string command = "PATH=" + ShellWord(root + "/bin") + ":$PATH; " + found[0].remedy;
    EXPECT_EQ(system(command.c_str()), 0) << command;
  };
  snapshot_.directories = {dir_};
  WithFstab();
  cure("no-module");
  cure("no-device");
  EXPECT_EQ(Only(Machine()), "");
  tree_.Write("/proc/self/mountinfo", "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n");
  cure("not-mounted");
  EXPECT_EQ(Only(Machine()), "");
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
  EXPECT_EQ(found[0].remedy, "kill 42 && tail --pid=42 -f /dev/null && ppcd &");
  tree_.Write("/sys/kernel/security/lockdown", "none integrity [confidentiality]\n");
  EXPECT_EQ(Machine().at(0).code, "lockdown");
  std::filesystem::remove(tree_.Path("/sys/kernel/btf/vmlinux"));
  EXPECT_EQ(Machine().at(0).code, "no-btf");
  // A directory served by the module or the observer has no such finding.
  dir_.mount["backend"] = "observer";
  snapshot_.directories = {dir_};
  EXPECT_EQ(Only(Machine()), "");
}

TEST_F(DoctorTest, DevicesOfMounts) {
  tree_.Write("/sys/fs/ppc/3/state", "native\n");
  snapshot_.directories = {dir_};
  EXPECT_EQ(Only(Machine()), "no-device udevadm trigger --action=add --subsystem-match=ppc");
  tree_.Write("/dev/ppc3", "");
  EXPECT_EQ(Only(Machine()), "");
  tree_.Write("/proc/42/status", "Uid:\t977\t977\t977\t977\nCapEff:\t000000c000880004\n");
  EXPECT_EQ(Only(Machine()),
            "device-permission kill 42 && tail --pid=42 -f /dev/null && ppcd --socket "
            "/run/ppc/ppcd.sock --state-dir /run/ppc/ppcd.sock.state &");
  std::filesystem::create_directories(tree_.Path("/run/systemd/system"));
  EXPECT_EQ(Only(Machine()), "device-permission systemctl restart ppcd");
}

TEST_F(DoctorTest, ADaemonThatDoesNotAnswer) {
  snapshot_.daemon_error = ECONNREFUSED;
  EXPECT_EQ(OfDaemon(), "daemon-down ppcd &") << "no service manager";
  std::filesystem::create_directories(tree_.Path("/run/systemd/system"));
  EXPECT_EQ(OfDaemon(), "daemon-down systemctl start ppcd");
  snapshot_.socket = "/tmp/own.sock";
  EXPECT_EQ(OfDaemon(), "daemon-down ppcd --socket /tmp/own.sock --state-dir /tmp/own.sock.state &")
      << "not the manager's";
  snapshot_.socket = "/run/my ppc/ppcd.sock";
  EXPECT_EQ(OfDaemon(),
            "daemon-down ppcd --socket '/run/my ppc/ppcd.sock' --state-dir '/run/my ppc' &");
  snapshot_.daemon_error = ETIMEDOUT;
  EXPECT_EQ(OfDaemon(), "daemon-hangs systemctl restart ppcd");
  tree_.Write("/proc/77/comm", "ppcd\n");
  tree_.Write("/proc/77/stat", "77 (ppcd) T 1 77 77");
  EXPECT_EQ(OfDaemon(), "daemon-hangs kill -CONT 77");
}

TEST_F(DoctorTest, AFailedPolicyIsRegisteredAgain) {
  dir_.mount["state"] = "failed";
  dir_.mount["last_error"] = "it crashed";
  Findings found;
  CheckDirectory(snapshot_, dir_, &found);
  EXPECT_EQ(Only(found),
            "policy-failed ppcctl rm_policy /models && ppcctl reg_policy /models maio");
  dir_.mount["config"] = {{"holdback", 20}};
  found.clear();
  CheckDirectory(snapshot_, dir_, &found);
  EXPECT_TRUE(Only(found).ends_with("reg_policy /models maio '{\"holdback\":20}'")) << Only(found);
}

TEST_F(DoctorTest, ADirectoryIsMissedWhereRegisteringIsTheRemedy) {
  const auto directory = [this] {
    Findings found;
    CheckDirectory(snapshot_, dir_, &found);
    return Only(found);
  };
  dir_.parent.clear();
  dir_.mount = nullptr;
  EXPECT_EQ(directory(), "not-registered ppcctl reg_policy /models maio");
  snapshot_.daemon["off"] = true;
  EXPECT_EQ(directory(), "") << "nothing is registered while it is off";
}

TEST_F(DoctorTest, AModelIsCachedBecauseItIsBeingLoaded) {
  const std::string file = tree_.Path("/models/m.safetensors");
  tree_.Write("/models/m.safetensors", std::string(1 << 20, 'x'));
  const int fd = open(file.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(fsync(fd), 0);  // not dirty
  close(fd);
  dir_.path = tree_.Path("/models");
  dir_.model_files = {file};
  const auto directory = [this] {
    Findings found;
    CheckDirectory(snapshot_, dir_, &found);
    return Only(found);
  };
  EXPECT_EQ(directory(), "cached ppcctl drop " + dir_.path);
  dir_.mount["services"] = {{{"service_id", "svc"}, {"state", "started"}}};
  EXPECT_EQ(directory(), "");
  dir_.mount["services"][0]["state"] = "ready";
  EXPECT_EQ(directory(), "cached ppcctl drop " + dir_.path);
}

TEST_F(DoctorTest, WordsOfAShell) {
  EXPECT_EQ(ShellWord("/models/a-b_1.0"), "/models/a-b_1.0");
  EXPECT_EQ(ShellWord("it's here"), "'it'\\''s here'");
  EXPECT_EQ(ShellWord(""), "''");
}

TEST_F(DoctorTest, AServiceWhoseTemplateIsOfAnotherLoader) {
  dir_.mount["services"] = {{{"service_id", "svc-one"}, {"workers", 1}}};
  dir_.policy = {{"services", {{{"service_id", "svc-one"}, {"matched", 100}, {"unknown", 90}}}}};
  // Without a template there is nothing to differ from.
  EXPECT_EQ(Only(Services()), "");
  snapshot_.template_dir = tree_.Path("/templates");
  std::filesystem::create_directories(snapshot_.template_dir);
  maio::Template t;
  t.service_id = "svc-one";
  std::string error;
  ASSERT_EQ(maio::Store(snapshot_.template_dir, t, &error), 0) << error;
  EXPECT_EQ(Only(Services()),
            "template-differs ppcctl template rerecord svc-one --dir " + snapshot_.template_dir);
  dir_.policy["services"][0]["unknown"] = 24;
  EXPECT_EQ(Only(Services()), "") << "less than a quarter";
  dir_.policy["services"][0]["matched"] = 2;
  EXPECT_EQ(Only(Services()), "") << "next to nothing was read";
}

TEST_F(DoctorTest, ACgroupThatMayNotReadFast) {
  struct stat info {};
  ASSERT_EQ(stat(tree_.Root().c_str(), &info), 0);
  const std::string disk =
      std::to_string(major(info.st_dev)) + ":" + std::to_string(minor(info.st_dev));
  dir_.path = tree_.Root();
  dir_.mount["services"] = {{{"service_id", "svc-one"}, {"cgroup", "/svc"}}};
  tree_.Write("/sys/fs/cgroup/cgroup.controllers", "io memory\n");
  tree_.Write("/sys/fs/cgroup/svc/memory.max", "max\n");
  tree_.Write("/sys/fs/cgroup/svc/io.max", disk + " rbps=max wbps=max riops=max wiops=max\n");
  EXPECT_EQ(Only(Services()), "");
  tree_.Write("/sys/fs/cgroup/svc/io.max", disk + " rbps=1048576 wbps=max riops=max wiops=max\n");
  EXPECT_EQ(Only(Services()), "io-limit echo '" + disk + " rbps=max riops=max' > " +
                                  tree_.Path("/sys/fs/cgroup/svc/io.max"));
  // The limit is on the parent group.
  tree_.Write("/sys/fs/cgroup/svc/inner/memory.max", "max\n");
  tree_.Write("/sys/fs/cgroup/svc/inner/io.max", "");
  dir_.mount["services"][0]["cgroup"] = "/svc/inner";
  EXPECT_TRUE(Only(Services()).ends_with(tree_.Path("/sys/fs/cgroup/svc/io.max")));
}

// v1 has a hierarchy for it, and two files.
TEST_F(DoctorTest, ACgroupOfTheFirstVersionThatMayNotReadFast) {
  struct stat info {};
  ASSERT_EQ(stat(tree_.Root().c_str(), &info), 0);
  const std::string disk =
      std::to_string(major(info.st_dev)) + ":" + std::to_string(minor(info.st_dev));
  dir_.path = tree_.Root();
  dir_.mount["services"] = {{{"service_id", "svc-one"}, {"cgroup", "/svc"}}};
  tree_.Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  tree_.Write("/sys/fs/cgroup/memory/svc/memory.limit_in_bytes", "9223372036854771712\n");
  const std::string throttle = "/sys/fs/cgroup/blkio/svc/blkio.throttle.read_";
  tree_.Write(throttle + "bps_device", "");
  tree_.Write(throttle + "iops_device", "");
  EXPECT_EQ(Only(Services()), "");
  tree_.Write(throttle + "iops_device", disk + " 8\n");
  EXPECT_EQ(Only(Services()), "io-limit echo '" + disk + " 0' > " +
                                  tree_.Path(throttle + "bps_device") + " && echo '" + disk +
                                  " 0' > " + tree_.Path(throttle + "iops_device"));
}

TEST_F(DoctorTest, AGuardThatLimits) {
  const auto limits = [this](const char* state, const char* id = "svc-one") {
    dir_.mount["runner"]["services"] = {{{"service_id", id},
                                         {"guard",
                                          {{"state", state},
                                           {"reason", "33 MiB came back"},
                                           {"refused_drop_bytes", uint64_t{3} << 20},
                                           {"refused_load_bytes", uint64_t{2} << 20}}}}};
    return Only(Services());
  };
  const std::string again = "ppcctl rm_policy /models && ppcctl reg_policy /models maio";
  EXPECT_EQ(limits("open"), "");
  EXPECT_EQ(limits("no_unmap"), "guard-limits " + again + " '{\"bar\": false}'");
  EXPECT_EQ(Services().at(0).about, "/models svc-one");
  EXPECT_EQ(Services().at(0).cause,
            "the guard limits what its policy does, no_unmap: 33 MiB came back; it has refused "
            "drops of 3.0 MiB and loads of 2.0 MiB");
  EXPECT_EQ(limits("read_errors"), "read-errors journalctl -k --grep 'I/O error'");
  EXPECT_EQ(limits("no_loads"), "guard-limits " + again + " '{\"prefetch\": false}'");
  EXPECT_EQ(limits("small_window", ""), "guard-limits " + again + " '{\"prefetch\": false}'");
  EXPECT_EQ(Services().at(0).about, "/models") << "readers that belong to no service";
  // The service reads other files than the recording lists.
  snapshot_.template_dir = tree_.Path("/templates");
  std::filesystem::create_directories(snapshot_.template_dir);
  maio::Template t;
  t.service_id = "svc-one";
  std::string error;
  ASSERT_EQ(maio::Store(snapshot_.template_dir, t, &error), 0) << error;
  EXPECT_EQ(limits("no_loads"),
            "guard-limits ppcctl template rerecord svc-one --dir " + snapshot_.template_dir);
  dir_.mount["policy"] = "/opt/mine.so";
  EXPECT_EQ(limits("no_drops+no_loads"), "guard-limits " + again);
}

TEST_F(DoctorTest, EventsThatWereLost) {
  dir_.mount["runner"]["device"] = {{"events_lost", 3}, {"events_queued", 1000}};
  EXPECT_EQ(Only(Services()), "");
  dir_.mount["runner"]["device"]["events_lost"] = 30;
  EXPECT_EQ(Only(Services()),
            "events-lost ppcctl rm_policy /models && ppcctl reg_policy /models maio");
}

// A service with one worker, as MAIO reports it.
class DoctorDeviceRateTest : public DoctorTest {
 protected:
  DoctorDeviceRateTest() {
    dir_.mount["services"] = {{{"service_id", "svc-one"}}};
    group_ = {{"state", "SYNC"},
              {"consumed", uint64_t{100} << 20},
              {"total", uint64_t{200} << 20},
              {"ahead", uint64_t{1} << 20}};
  }
  std::string DeviceRate(uint64_t device_mbps = 300) {
    dir_.policy = {{"services",
                    {{{"service_id", "svc-one"},
                      {"device_mbps", device_mbps},
                      {"loaded", loaded_},
                      {"redundant", redundant_},
                      {"groups", Json::array({group_})}}}}};
    found_ = Services();
    for (const Finding& each : found_) EXPECT_FALSE(each.is_problem) << each.code;
    return Only(found_);
  }
  Json group_;
  uint64_t loaded_ = 100 << 20;
  uint64_t redundant_ = 0;
  Findings found_;
};

TEST_F(DoctorDeviceRateTest, ADiskThatReadersWaitForIsWorthKnowing) {
  EXPECT_EQ(DeviceRate(), "device-slow ppcctl warm /models --id svc-one");
  EXPECT_NE(found_.at(0).cause.find("gives 300 MB/s"), std::string::npos);
  EXPECT_EQ(DeviceRate(0), "") << "nothing was measured";
  redundant_ = 101 << 20;
  EXPECT_EQ(DeviceRate(), "") << "most of it was in memory";
  redundant_ = 0;
  loaded_ = 1 << 20;
  EXPECT_EQ(DeviceRate(), "") << "hardly anything came from the disk";
  loaded_ = 100 << 20;
  group_["ahead"] = uint64_t{64} << 20;
  EXPECT_EQ(DeviceRate(), "") << "the loads are ahead";
  group_["ahead"] = nullptr;
  EXPECT_EQ(DeviceRate(), "") << "all is loaded";
  group_["ahead"] = 0;
  group_["consumed"] = uint64_t{1} << 20;
  EXPECT_EQ(DeviceRate(), "") << "they have just begun";
  group_["consumed"] = group_["total"];
  EXPECT_EQ(DeviceRate(), "") << "they have read all";
  group_["consumed"] = uint64_t{100} << 20;
  group_["state"] = "LOST";
  EXPECT_EQ(DeviceRate(), "") << "nothing is loaded for who goes elsewhere";
}

TEST_F(DoctorTest, AnEnginesOwnPrefetch) {
  const auto of_words = [this](std::vector<std::string> words) {
    snapshot_.command = std::move(words);
    return OfCommand();
  };
  const std::string option = "--safetensors-load-strategy";
  EXPECT_EQ(of_words({"vllm", "serve", "my m", option, "eager", "-v"}),
            "own-prefetch vllm serve 'my m' " + option + " lazy -v");
  EXPECT_EQ(of_words({"vllm", "serve", "m", option + "=prefetch"}),
            "own-prefetch vllm serve m " + option + "=lazy");
  EXPECT_EQ(of_words({"vllm", "serve", "m", option, "lazy"}), "");
  EXPECT_EQ(of_words({"sglang", "--weight-loader-prefetch-checkpoints", "m"}),
            "own-prefetch sglang m");
}

TEST_F(DoctorTest, WhoReadsAtRandom) {
  Reader reader;
  reader.pid = 9;
  reader.random_file = "/models/m.gguf";
  const auto remedy = [this, &reader](std::vector<std::string> words) {
    reader.words = std::move(words);
    dir_.readers = {reader};
    Findings found;
    CheckReaders(snapshot_, dir_, &found);
    return Only(found);
  };
  EXPECT_EQ(remedy({"llama-server", "--numa", "distribute", "-m", "m.gguf"}),
            "madv-random start it again as: llama-server -m m.gguf");
  EXPECT_EQ(remedy({"llama-server", "--numa"}), "madv-random start it again as: llama-server");
  EXPECT_EQ(remedy({"other"}), "madv-random start it without what asks for random reads");
}

}  // namespace
}  // namespace ppc::ctl
