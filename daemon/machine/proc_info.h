// SPDX-License-Identifier: Apache-2.0
// Owns what /proc tells about another process.
#ifndef PPC_DAEMON_MACHINE_PROC_INFO_H_
#define PPC_DAEMON_MACHINE_PROC_INFO_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/cpu_set.h"
#include "daemon/machine/roots.h"

namespace ppc {

// Numeric names in a directory: processes, threads, descriptors.
std::vector<int> ListNumbers(const std::string& path);

// The number that follows `key` in a text of /proc; nullopt: the key is not there.
std::optional<uint64_t> NumberAfter(const std::string& text, std::string_view key, int base = 10);

// Start of the process in ns since boot, at the 10 ms resolution /proc has.
std::optional<uint64_t> ProcessStartNs(const SysRoots& roots, int pid);

// nullopt: there is no such process.  0 for those without a parent here.
std::optional<int> ProcessParent(const SysRoots& roots, int pid);

// The number of the process that leads its group.
std::optional<int> ProcessGroup(const SysRoots& roots, int pid);

// R, S, D, Z, T and so on, as proc(5) has them; 0: there is no such process.
char ProcessState(const SysRoots& roots, int pid);

// Two times that one process started at, of which either may have /proc's resolution.
bool IsSameStart(uint64_t one_ns, uint64_t other_ns);

// True if `pid` is still the process that started at start_ns (0 = do not check).
bool IsSameProcess(const SysRoots& roots, int pid, uint64_t start_ns);

// Value of a variable in the environment the process was started with.
std::optional<std::string> ProcessEnv(const std::string& environ_text, const std::string& name);
std::string ProcessEnviron(const SysRoots& roots, int pid);

// The user of a process that has one alone: real, effective, saved and file system's.
std::optional<uint32_t> ProcessUid(const SysRoots& roots, int pid);
// In a pid namespace below ours, as containers are.
bool IsInContainer(const SysRoots& roots, int pid);
// "net:[4026532000]"; "" if it is the machine's own, or not known.
std::string ProcessNetwork(const SysRoots& roots, int pid);

// The file that a process executes; nullopt: a thread of the kernel, or not to be seen.
std::optional<std::string> ProcessExe(const SysRoots& roots, int pid);

// What a process was started with, its own name first.  A process may have overwritten it.
std::vector<std::string> ProcessWords(const SysRoots& roots, int pid);

// The cgroup path as /proc/PID/cgroup writes it: v2, or v1's memory hierarchy.
std::optional<std::string> ProcessCgroup(const SysRoots& roots, int pid);

// Distinct targets of the open descriptors that lie below /dev.
std::vector<std::string> OpenDevices(const SysRoots& roots, int pid);

// What the threads of a process may use: all CPUs of any of them, and the memory nodes that its
// cpuset allows.
struct ThreadPlaces {
  CpuList cpus;
  CpuList mems;
};
ThreadPlaces PlacesOfThreads(const SysRoots& roots, int pid);

// Owns telling how a process ended whose parent is another process.
// Threads: pure functions, any thread.
//
// As waitpid(2) says; nullopt: it has not ended, or its status is gone.  On kernels before 6.15
// that is known until its parent has waited for it.
std::optional<int> ProcessEnd(const SysRoots& roots, int pidfd, int pid, uint64_t start_ns);
// Such an end is a failure: neither of its own accord nor asked for (SIGTERM and the like, or the
// status that a shell gives those).
bool IsFailure(int wait_status);

}  // namespace ppc

#endif  // PPC_DAEMON_MACHINE_PROC_INFO_H_
