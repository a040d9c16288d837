// SPDX-License-Identifier: Apache-2.0
// A process that maps a model file, touches it, and never answers again.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "attack.h"

namespace ppc::attack {
namespace {

// Each page of a mapping of it, which stays; false: there is none.
bool TouchMapped(const std::string& path) {
  constexpr size_t kPage = 4096;
  const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status {};
  if (!fd || fstat(fd.get(), &status) != 0) return false;
  const auto bytes = static_cast<size_t>(status.st_size);
  const void* const map = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (map == MAP_FAILED) return false;
  const auto* const pages = static_cast<const volatile char*>(map);
  for (size_t at = 0; at < bytes; at += kPage) (void)pages[at];
  return true;
}

}  // namespace

// mapper file= [hung=FILE]: maps all of `file`, touches each page and prints "mapped".  Then it
// touches FILE, whose server does not answer, or without hung= it is stopped by a tracer that never
// lets it go on.
int Mapper(const Words& words) {
  const std::string hung = words.TextOption("hung");
  const pid_t tracee = hung.empty() ? fork() : 0;
  if (tracee != 0) {
    waitpid(tracee, nullptr, WUNTRACED);
  } else {
    if (hung.empty()) ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    if (!TouchMapped(words.TextOption("file"))) {
      std::printf("FAIL: cannot map: %s\n", strerror(errno));
      return 1;
    }
    std::printf("mapped\n");
    if (hung.empty()) raise(SIGSTOP);
    if (!hung.empty()) TouchMapped(hung);
    std::printf("FAIL: it goes on\n");
  }
  for (;;) pause();
}

}  // namespace ppc::attack
