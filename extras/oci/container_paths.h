// SPDX-License-Identifier: Apache-2.0
// Owns mapping a path in a container to the same file on the host, before the container runs, when
// its mounts exist only in its configuration.  Follows symbolic links as the container would: none
// leads outside.
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

  // Resolves symbolic links, and does not check that the file exists.  `path` is absolute, or
  // relative to the command's start directory.  EXDEV: on a file system of the container's own.
  Result<std::string> ToHost(const std::string& path) const;
  // The container's name of a host path; "" = not in the container.
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
