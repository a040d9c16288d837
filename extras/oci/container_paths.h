// SPDX-License-Identifier: Apache-2.0
// Owns the way from a path in a container to the same file on the host, before the container runs:
// its mounts are only written down.  Symbolic links are followed as the container would: none leads
// out of it.
#ifndef PPC_EXTRAS_OCI_CONTAINER_PATHS_H_
#define PPC_EXTRAS_OCI_CONTAINER_PATHS_H_

#include <string>
#include <vector>

#include "daemon/base/result.h"
#include "extras/oci/container.h"

namespace ppc::oci {

class ContainerPaths {
 public:
  explicit ContainerPaths(const Container& container);

  // Without symbolic links; whether there is anything is not said.  `path` is absolute, or below
  // the directory in which the command starts.  EXDEV: on a file system of the container's own.
  Result<std::string> ToHost(const std::string& path) const;
  // The container's name of a host's path that is in it; "" = it is not.
  std::string ToContainer(const std::string& host) const;

 private:
  struct Place {
    std::string at;    // in the container, "" = its root
    std::string host;  // real path; "" = none
  };

  Result<std::string> Resolve(const std::string& path) const;  // in the container
  const Place* PlaceOf(const std::string& at) const;

  std::vector<Place> places_;  // later ones cover earlier ones
  std::string directory_;
};

}  // namespace ppc::oci

#endif  // PPC_EXTRAS_OCI_CONTAINER_PATHS_H_
