// SPDX-License-Identifier: Apache-2.0
// Calls of which one allocation after the other fails.
#pragma once

#include <fcntl.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <utility>

#include "attack.h"

namespace ppc::attack {

// Arms and disarms the failure of the Nth allocation of this task.
class Injector {
 public:
  Injector() : fd_(open("/proc/thread-self/fail-nth", O_RDWR | O_CLOEXEC)) {
    for (const char* kind : {"failslab", "fail_page_alloc", "fail_usercopy"}) {
      const std::string folder = std::string("/sys/kernel/debug/") + kind;
      WriteText(folder + "/verbose", "0");
      WriteText(folder + "/ignore-gfp-wait", "N");
      WriteText(folder + "/min-order", "0");
    }
  }
  bool there() const { return static_cast<bool>(fd_); }
  void Arm(int n) const { Write(std::to_string(n)); }
  // Whether the failure has happened.
  bool Disarm() const {
    char text[16] = "";
    // Reading copies to the user: with a failure still to come, that may be what fails.
    const bool happened = pread(fd_.get(), text, sizeof(text) - 1, 0) > 0 && std::atoi(text) == 0;
    for (int i = 0; i < 3 && !Write("0"); ++i) continue;
    return happened;
  }

 private:
  bool Write(const std::string& text) const {
    return pwrite(fd_.get(), text.data(), text.size(), 0) == static_cast<ssize_t>(text.size());
  }
  Fd fd_;
};

// What all operations of a run share; a failure is printed and ends it.
class FailingCalls {
 public:
  explicit FailingCalls(std::string only) : only_(std::move(only)) {}

 protected:
  using Action = std::function<int()>;    // an errno
  using Prepare = std::function<bool()>;  // whether it worked
  using Check = std::function<bool(int error)>;

  void Walk(const std::string& name, const Prepare& prepare, const Action& action,
            const Check& check) {
    if (!good_ || (!only_.empty() && name.find(only_) == std::string::npos)) return;
    ++operations_;
    int n = 1, failed = 0;
    for (; n <= kMost; ++n) {
      round_ = n;
      if (!prepare()) return Bad(name, n, "cannot be prepared", errno);
      injector_.Arm(n);
      const int error = action();
      const bool happened = injector_.Disarm();
      if (error && !happened) return Bad(name, n, "failed although nothing was injected", error);
      if (error && error != ENOMEM && error != EFAULT) return Bad(name, n, "gave", error);
      if (!check(error)) return Bad(name, n, "left something wrong behind", error);
      failed += error != 0;
      if (!happened) break;
    }
    injected_ += static_cast<uint64_t>(n - 1);
    std::printf("failnth %s injected=%d failed=%d\n", name.c_str(), n - 1, failed);
    if (n > kMost) Bad(name, n, "never came to its end", 0);
  }
  void Bad(const std::string& name, int n, const char* what, int error) {
    std::printf("FAIL: %s with allocation %d failing: %s %s\n", name.c_str(), n, what,
                error ? strerrorname_np(error) : "");
    good_ = false;
  }
  bool CanFail() const { return injector_.there(); }

  int round_ = 0;  // the allocation that fails
  int operations_ = 0;
  uint64_t injected_ = 0;
  bool good_ = true;

 private:
  static constexpr int kMost = 3000;  // failures tried per operation

  std::string only_;
  Injector injector_;
};

}  // namespace ppc::attack
