// SPDX-License-Identifier: Apache-2.0
// Owns what a container's annotations ask for, as requests of the control protocol.
#ifndef PPC_EXTRAS_OCI_SERVICE_REQUEST_H_
#define PPC_EXTRAS_OCI_SERVICE_REQUEST_H_

#include <string>

#include "daemon/base/json.h"
#include "daemon/base/result.h"
#include "daemon/machine/roots.h"
#include "extras/oci/container.h"
#include "tools/ppcctl/running_service.h"

namespace ppc::oci {

// True where PPC is not meant: a pod's sandbox, or another container of the pod than ppc.container.
bool IsLeftAlone(const Container& container);

// What to register, and the service with "service_id"; EINVAL names the annotation.
Result<ctl::ServiceRequest> RequestOf(const Container& container, const SysRoots& roots);

}  // namespace ppc::oci

#endif  // PPC_EXTRAS_OCI_SERVICE_REQUEST_H_
