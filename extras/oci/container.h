// SPDX-License-Identifier: Apache-2.0
// Owns what an OCI runtime tells a hook of a container: the state on stdin, and config.json of the
// bundle.  Its contents are unchecked: paths are the container's, as its author wrote them.
#ifndef PPC_EXTRAS_OCI_CONTAINER_H_
#define PPC_EXTRAS_OCI_CONTAINER_H_

#include <map>
#include <string>
#include <vector>

#include "daemon/base/json.h"
#include "daemon/base/result.h"

namespace ppc::oci {

struct Mount {
  std::string destination;  // in the container
  std::string source;       // on the host; "" = a file system of the container's own
};

struct Container {
  std::string id;  // valid as a file name
  int pid = 0;     // of its first process
  bool has_stopped = false;
  std::string bundle;
  std::map<std::string, std::string> annotations;
  // From config.json:
  std::string root;  // on the host
  std::vector<Mount> mounts;
  std::vector<std::string> command;
  std::map<std::string, std::string> environment;
  std::string directory = "/";  // where the command starts, in the container

  // "" = not set.
  std::string Annotation(const std::string& key) const;
};

// Whether it may be the name of a file.
bool IsContainerId(const std::string& id);
// Only the state.
Result<Container> ReadState(const std::string& text);
// Adds config.json of its bundle.
Status ReadConfiguration(Container& container);

}  // namespace ppc::oci

#endif  // PPC_EXTRAS_OCI_CONTAINER_H_
