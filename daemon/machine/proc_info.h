// SPDX-License-Identifier: Apache-2.0
// Owns reading what /proc shows of another process.
// Owns the exit status of processes that are not ppcd's children, too.
// Threads: pure functions, any thread.
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

// The number behind `key` in a text of /proc; nullopt: the key is missing.
std::optional<uint64_t> NumberAfter(const std::string& text, std::string_view key, int base = 10);

// Start of the process in ns since boot, at the 10 ms resolution /proc has.
std::optional<uint64_t> ProcessStartNs(const SysRoots& roots, int pid);

// nullopt: there is no such process.  0: its parent is not visible here.
std::optional<int> ProcessParent(const SysRoots& roots, int pid);

// The process group's number.
std::optional<int> ProcessGroup(const SysRoots& roots, int pid);

// R, S, D, Z, T and so on, as proc(5) has them; 0: there is no such process.
char ProcessState(const SysRoots& roots, int pid);

// Whether two start times are the same, if either may be rounded to /proc's resolution.
bool IsSameStart(uint64_t one_ns, uint64_t other_ns);

// True if `pid` is still the process that started at start_ns (0 = do not check).
bool IsSameProcess(const SysRoots& roots, int pid, uint64_t start_ns);

// Value of a variable in the environment the process was started with.
std::optional<std::string> ProcessEnv(const std::string& environ_text, const std::string& name);
std::string ProcessEnviron(const SysRoots& roots, int pid);

// The process's user; nullopt if real, effective, saved and file system's differ.
std::optional<uint32_t> ProcessUid(const SysRoots& roots, int pid);
// Whether it is in a pid namespace below ours, as containers are.
bool IsInContainer(const SysRoots& roots, int pid);
// "net:[4026532000]"; "" if it is the machine's own, or unknown.
std::string ProcessNetwork(const SysRoots& roots, int pid);

// The file that a process executes; nullopt: a kernel thread, or not visible.
std::optional<std::string> ProcessExe(const SysRoots& roots, int pid);

// The process's command line, program name first.  The process may have overwritten it.
std::vector<std::string> ProcessWords(const SysRoots& roots, int pid);

// The cgroup path in the form of /proc/PID/cgroup: v2, or v1's memory hierarchy.
std::optional<std::string> ProcessCgroup(const SysRoots& roots, int pid);

// Distinct targets of the open descriptors that lie below /dev.
std::vector<std::string> OpenDevices(const SysRoots& roots, int pid);

// CPUs that any thread of a process may use, and the memory nodes of its cpuset.
struct ThreadPlaces {
  CpuList cpus;
  CpuList mems;
};
ThreadPlaces PlacesOfThreads(const SysRoots& roots, int pid);

// Owns the exit status of processes that are not our children.
// Threads: pure functions, any thread.
//
// In the form of waitpid(2); nullopt: it has not ended, or its status is gone: before 6.15 it is
// known only until the parent has waited for it.
std::optional<int> ProcessEnd(const SysRoots& roots, int pidfd, int pid, uint64_t start_ns);
// Whether such an end is a failure: neither voluntary nor requested (SIGTERM and the like, or a
// shell's status for them).
bool IsFailure(int wait_status);

}  // namespace ppc

#endif  // PPC_DAEMON_MACHINE_PROC_INFO_H_
