// SPDX-License-Identifier: Apache-2.0
// Owns a healthy snapshot for `doctor` below a root of its own; a test adds a cause.
#ifndef PPC_EXTRAS_DOCTOR_TESTS_DOCTOR_FIXTURE_H_
#define PPC_EXTRAS_DOCTOR_TESTS_DOCTOR_FIXTURE_H_

#include <gtest/gtest.h>

#include <string>

#include "extras/doctor/checks.h"
#include "tests/unit/temp_tree.h"

namespace ppc::ctl {

inline constexpr const char* kAllCapabilities = "Uid:\t0\t0\t0\t0\nCapEff:\t000001ffffffffff\n";

class DoctorTest : public testing::Test {
 protected:
  DoctorTest() {
    snapshot_.roots = {tree_.Root(), tree_.Root()};
    snapshot_.host = tree_.Root();
    snapshot_.release = "6.1.0-1-amd64";
    snapshot_.daemon = {{"pid", 42}};
    tree_.Write("/sys/kernel/btf/vmlinux", "");
    tree_.Write("/sys/kernel/security/lockdown", "[none] integrity confidentiality\n");
    tree_.Write("/proc/42/status", kAllCapabilities);
    tree_.Write("/proc/self/mountinfo", "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n");
    dir_.path = dir_.parent = "/models";
    dir_.mount = {{"mount", "/models"}, {"state", "running"}, {"backend", "observer"},
                  {"policy", "maio"},   {"pid", 0},           {"services", Json::array()}};
  }
  void WithFstab() {
    tree_.Write("/etc/fstab",
                "# a comment\n/dev/sda1 / ext4 defaults 0 1\n/models /models ppc defaults 0 0\n");
  }
  void Poll() {
    dir_.mount["backend"] = "poll";
    snapshot_.directories = {dir_};
  }
  Findings Machine() {
    Findings found;
    CheckMachine(snapshot_, &found);
    return found;
  }
  Findings Services() {
    Findings found;
    CheckServices(snapshot_, dir_, &found);
    return found;
  }
  // "code remedy" of a single finding; all codes if there are more.
  static std::string Only(const Findings& found) {
    if (found.size() == 1) return found[0].code + " " + found[0].remedy;
    std::string codes;
    for (const Finding& each : found) codes += each.code + ";";
    return codes;
  }
  std::string OfDaemon() {
    Findings found;
    CheckDaemon(snapshot_, &found);
    return Only(found);
  }
  std::string OfCommand() {
    Findings found;
    CheckCommand(snapshot_, &found);
    return Only(found);
  }
  TempTree tree_;
  SystemSnapshot snapshot_;
  DirectorySnapshot dir_;
};

}  // namespace ppc::ctl

#endif  // PPC_EXTRAS_DOCTOR_TESTS_DOCTOR_FIXTURE_H_
