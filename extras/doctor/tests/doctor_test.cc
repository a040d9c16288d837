// SPDX-License-Identifier: Apache-2.0
// Causes that no machine of ours has: made up below a root of one's own.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "daemon/base/files.h"
#include "extras/doctor/tests/doctor_fixture.h"
#include "tools/ppcctl/text.h"

namespace ppc::ctl {
namespace {

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

// Programs that do to the tree what the real ones do to a machine, and refuse where those would.
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
  // The kernel loads the module of a file system by itself.
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
  patient_.directories = {look_};
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
  // A directory that the module or the observer serves has no such finding.
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
  EXPECT_EQ(Only(Machine()),
            "device-permission kill 42 && tail --pid=42 -f /dev/null && ppcd --socket "
            "/run/ppc/ppcd.sock --state-dir /run/ppc/ppcd.sock.state &");
  std::filesystem::create_directories(tree_.Path("/run/systemd/system"));
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
  tree_.Write("/proc/77/stat", "77 (ppcd) T 1 77 77");
  found.clear();
  CheckDaemon(patient_, &found);
  EXPECT_EQ(Only(found), "daemon-hangs kill -CONT 77");
}

TEST_F(DoctorTest, AFailedPolicyIsRegisteredAgain) {
  look_.mount["state"] = "failed";
  look_.mount["last_error"] = "it crashed";
  Findings found;
  CheckDirectory(patient_, look_, &found);
  EXPECT_EQ(Only(found),
            "policy-failed ppcctl rm_policy /models && ppcctl reg_policy /models maio");
  look_.mount["config"] = {{"holdback", 20}};
  found.clear();
  CheckDirectory(patient_, look_, &found);
  EXPECT_TRUE(Only(found).ends_with("reg_policy /models maio '{\"holdback\":20}'")) << Only(found);
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
