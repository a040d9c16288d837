// SPDX-License-Identifier: Apache-2.0
// Owns finding the service of an instance that registered its address: the local process that
// listens there, and the services that ppcd assigns to that process.
// Threads: one at a time.
#ifndef PPC_EXTRAS_XLLM_INSTANCE_SERVICE_H_
#define PPC_EXTRAS_XLLM_INSTANCE_SERVICE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/base/json.h"
#include "daemon/machine/roots.h"

namespace ppc::ctl::xllm {

// "IP:PORT"; nullopt: malformed, or of another machine.
std::optional<uint16_t> LocalPort(const std::string& address);
// The process that listens on a TCP port of this network namespace; 0: none visible.
int ListenerOf(const SysRoots& roots, uint16_t port);

struct Service {
  std::string mount;
  std::string id;

  bool operator==(const Service&) const = default;
};

// Searches ppcd's answer to `status`: by PPC_SERVICE_ID of the process, by its ancestor, by its
// control group; the first of these that yields anything.
std::vector<Service> ServicesOf(const SysRoots& roots, const Json& status, int pid);
// By its ID.
std::vector<Service> ServicesNamed(const Json& status, const std::string& id);

}  // namespace ppc::ctl::xllm

#endif  // PPC_EXTRAS_XLLM_INSTANCE_SERVICE_H_
