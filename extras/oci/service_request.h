// SPDX-License-Identifier: Apache-2.0
// Owns converting a container's annotations to requests of the control protocol.
// Finds the model of a container.
#ifndef PPC_EXTRAS_OCI_SERVICE_REQUEST_H_
#define PPC_EXTRAS_OCI_SERVICE_REQUEST_H_

#include <string>

#include "daemon/base/json.h"
#include "daemon/base/result.h"
#include "daemon/machine/roots.h"
#include "extras/oci/container.h"
#include "extras/oci/container_paths.h"
#include "tools/ppcctl/model_find.h"
#include "tools/ppcctl/running_service.h"

namespace ppc::oci {

// Owns finding a container's model, by its annotation ppc.model or the words of its command, and
// the parameters that name its service.  Accesses nothing outside the container.
//
// Paths are the host's.  ENOENT: none.
Result<ctl::FoundModel> FindContainerModel(const Container& container, const ContainerPaths& paths);

// As ctl::ServiceParams, with the container's name of the model: the host's name may change with
// each container (an image's root, a pod's volume).
Json ContainerParams(const Container& container, const ContainerPaths& paths,
                     const ctl::FoundModel& model);

// True if PPC does not apply: a pod's sandbox, or another container of the pod than ppc.container.
bool IsLeftAlone(const Container& container);

// The directory to register, and the service with "service_id"; EINVAL names the annotation.
Result<ctl::ServiceRequest> RequestOf(const Container& container, const SysRoots& roots);

}  // namespace ppc::oci

#endif  // PPC_EXTRAS_OCI_SERVICE_REQUEST_H_
