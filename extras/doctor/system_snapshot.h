// SPDX-License-Identifier: Apache-2.0
// Owns the facts that `ppcctl doctor` examines: gathered once, so that all checks judge the same
// moment and tests provide their own.
// Threads: one.
#ifndef PPC_EXTRAS_DOCTOR_SYSTEM_SNAPSHOT_H_
#define PPC_EXTRAS_DOCTOR_SYSTEM_SNAPSHOT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/base/json.h"
#include "daemon/machine/roots.h"
#include "daemon/wire/protocol.h"

namespace ppc::ctl {

// A process that has files of a directory open or mapped.
struct Reader {
  int pid = 0;
  std::string name;                // of its program
  std::vector<std::string> words;  // its command line
  std::string cgroup;              // in the form of ProcessCgroup(); "" = ended
  std::string direct_file;         // one that it has open with O_DIRECT
  std::string random_file;         // one that it has mapped with MADV_RANDOM
};

struct DirectorySnapshot {
  std::string path;    // without symbolic links
  std::string parent;  // the registered directory that contains it, or it; "" = none
  Json mount;          // in ppcd's status; null if none
  Json policy;         // the policy's own status; null likewise
  std::vector<std::string> model_files;
  std::vector<Reader> readers;
};

struct SystemSnapshot {
  SysRoots roots;
  std::string host;      // root in front of /etc, /dev and /lib/modules; "" = the real one
  std::string release;   // of the kernel
  int daemon_error = 0;  // errno of asking ppcd; 0 = it answered
  std::string daemon_says;
  std::string socket = control::kDefaultSocket;  // of ppcd
  Json daemon = Json::object();                  // from its status
  std::string template_dir;
  std::vector<std::string> registered;  // directories
  std::vector<DirectorySnapshot> directories;
  std::vector<std::string> command;  // to be started; may be empty
};

// Processes that use a file below `path`, except `not_these`.
std::vector<Reader> ReadersBelow(const SysRoots& roots, const std::string& path,
                                 const std::vector<int>& not_these);

// Examines `directory` only, or with "" all registered ones.
SystemSnapshot TakeSnapshot(const std::string& directory, unsigned timeout_ms);

}  // namespace ppc::ctl

#endif  // PPC_EXTRAS_DOCTOR_SYSTEM_SNAPSHOT_H_
