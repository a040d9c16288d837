// SPDX-License-Identifier: Apache-2.0
// Owns finding the service of an instance that registered by its address: the process of this
// machine that listens there, and the services that ppcd says it belongs to.
// Threads: one at a time.
#ifndef PPC_EXTRAS_XLLM_WHOSE_H_
#define PPC_EXTRAS_XLLM_WHOSE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/base/json.h"
#include "daemon/machine/roots.h"

namespace ppc::ctl::xllm {

// "IP:PORT"; nullopt: it is not, or not of this machine.
std::optional<uint16_t> LocalPort(const std::string& address);
// The process that listens on a TCP port of this network namespace; 0: none that we may see.
int ListenerOf(const SysRoots& roots, uint16_t port);

struct Service {
  std::string mount;
  std::string id;

  bool operator==(const Service&) const = default;
};

// Finds them in ppcd's answer to `status`: by PPC_SERVICE_ID of the process, by the root process
// that it descends from, by its control group; the first of these that says anything.
std::vector<Service> ServicesOf(const SysRoots& roots, const Json& status, int pid);
// By its ID.
std::vector<Service> ServicesNamed(const Json& status, const std::string& id);

}  // namespace ppc::ctl::xllm

#endif  // PPC_EXTRAS_XLLM_WHOSE_H_
