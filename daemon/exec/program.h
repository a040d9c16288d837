// SPDX-License-Identifier: Apache-2.0
// Owns what stays the same of a program and of a model from one start to the next: the executable,
// of an interpreter the script or module, and the file that was missed or its set of shards.
// Threads: any.  Reads /proc and lists a directory of the mount, which may take as long as a
// process or a file system hangs.
#ifndef PPC_DAEMON_EXEC_PROGRAM_H_
#define PPC_DAEMON_EXEC_PROGRAM_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/backend/backend.h"
#include "daemon/exec/attribution.h"
#include "daemon/machine/roots.h"

namespace ppc {

struct Program {
  Membership::Root root;  // the process that was started as this program
  int group = 0;          // its process group
  std::string exe;
  std::string script;  // "": the executable is the program
  std::string cgroup;
  std::optional<uint32_t> uid;
};

// The script or module that an interpreter runs: "/srv/serve.py", "-m vllm.entrypoints.api_server",
// "-c".  "": `exe` is no interpreter, or is told nothing to run.  cwd: of a relative name.
std::string ScriptOf(const std::string& exe, const std::vector<std::string>& words,
                     const std::string& cwd);

// The program that a process belongs to: of the process and its ancestors in its process group the
// highest that it was forked from, or that started it as a helper (Python's multiprocessing, a
// process that has changed its title).  nullopt: the process is gone, or a thread of the kernel.
std::optional<Program> ProgramOf(const SysRoots& roots, int pid, uint64_t start_ns);

// What a missed file is part of: "dir/model-*-of-00004.safetensors", the directory of files with
// an index or of a hub's blobs, else the file itself.  backend may be nullptr: no index is seen.
std::string ModelOf(Backend* backend, const std::string& path);

// "auto-" and 16 digits.
std::string AutoServiceId(const Program& program, const std::string& model);

}  // namespace ppc

#endif  // PPC_DAEMON_EXEC_PROGRAM_H_
