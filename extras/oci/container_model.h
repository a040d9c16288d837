// SPDX-License-Identifier: Apache-2.0
// Owns finding a container's model, by its annotation ppc.model or the words of its command, and
// the parameters that name its service.  Accesses nothing outside the container.
#ifndef PPC_EXTRAS_OCI_CONTAINER_MODEL_H_
#define PPC_EXTRAS_OCI_CONTAINER_MODEL_H_

#include <string>

#include "daemon/base/json.h"
#include "daemon/base/result.h"
#include "extras/oci/container.h"
#include "extras/oci/container_paths.h"
#include "tools/ppcctl/model_find.h"

namespace ppc::oci {

// Paths are the host's.  ENOENT: none.
Result<ctl::FoundModel> FindContainerModel(const Container& container, const ContainerPaths& paths);

// As ctl::ServiceParams, with the container's name of the model: the host's name may change with
// each container (an image's root, a pod's volume).
Json ContainerParams(const Container& container, const ContainerPaths& paths,
                     const ctl::FoundModel& model);

}  // namespace ppc::oci

#endif  // PPC_EXTRAS_OCI_CONTAINER_MODEL_H_
