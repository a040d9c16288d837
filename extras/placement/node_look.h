// SPDX-License-Identifier: Apache-2.0
// Owns examining this machine for the state that it publishes to other machines.
// Threads: one at a time.
#ifndef PPC_EXTRAS_PLACEMENT_NODE_LOOK_H_
#define PPC_EXTRAS_PLACEMENT_NODE_LOOK_H_

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "daemon/base/result.h"
#include "extras/placement/node_state.h"
#include "tools/ppcctl/daemon_link.h"

namespace ppc::ctl {

class NodeLook {
 public:
  // `artifacts`: the directory of bundles, may be missing.
  NodeLook(std::string name, std::string templates, std::string artifacts);

  // Reads no model file, but queries the residency of each, page by page.  Examines the directories
  // registered with ppcd; models are these directories or lie one level below.
  Result<NodeState> Take(DaemonLink& link);

 private:
  struct Template {
    std::filesystem::file_time_type written;
    std::string largest_file;  // below the registered directory
  };
  void LookAtTemplates();
  // Templates that name a file of a directory, by its real path.
  using Readers = std::multimap<std::string, std::string>;
  Readers ReadersIn(const std::string& directory) const;
  ModelState LookAtModel(const std::string& name, const std::string& path,
                         const std::string& directory, const Readers& readers) const;

  const std::string name_;
  const std::string templates_;
  const std::string artifacts_;
  std::map<std::string, Template> known_;  // by service ID; each is read once
};

// From uname(2).
std::string HostName();

}  // namespace ppc::ctl

#endif  // PPC_EXTRAS_PLACEMENT_NODE_LOOK_H_
