// SPDX-License-Identifier: Apache-2.0
#include "tools/ppcctl/process_tree.h"

#include <cstdint>
#include <sstream>
#include <vector>

#include "daemon/base/files.h"
#include "daemon/machine/proc_info.h"

namespace ppc::ctl {

std::set<pid_t> Descendants(const SysRoots& roots, pid_t pid) {
  std::set<pid_t> known = {pid};
  std::vector<pid_t> open = {pid};
  while (!open.empty()) {
    const std::string tasks = roots.Proc("/" + std::to_string(open.back()) + "/task");
    open.pop_back();
    for (const int thread : ListNumbers(tasks)) {
      const Result<std::string> line = ReadLine(tasks + "/" + std::to_string(thread) + "/children");
      std::istringstream children(line ? *line : "");
      for (pid_t child = 0; children >> child;) {
        if (known.insert(child).second) open.push_back(child);
      }
    }
  }
  return known;
}

std::optional<pid_t> FirstOfCgroup(const SysRoots& roots, const std::string& cgroup,
                                   const std::string& other) {
  std::optional<pid_t> first;
  uint64_t first_ns = UINT64_MAX;
  for (const int pid : ListNumbers(roots.Proc(""))) {
    if (ProcessCgroup(roots, pid) != cgroup) continue;
    const Result<std::string> name = ReadLine(roots.Proc("/" + std::to_string(pid) + "/comm"));
    const std::optional<uint64_t> start_ns = ProcessStartNs(roots, pid);
    if (!name || *name == other || !start_ns) continue;
    // Among children of one tick: the one that was forked first, as far as numbers tell.
    if (*start_ns > first_ns || (*start_ns == first_ns && pid > *first)) continue;
    first = pid;
    first_ns = *start_ns;
  }
  return first;
}

}  // namespace ppc::ctl
