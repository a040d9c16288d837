// SPDX-License-Identifier: Apache-2.0
#include "tools/ppcctl/process_tree.h"

#include <sstream>
#include <string>
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

}  // namespace ppc::ctl
