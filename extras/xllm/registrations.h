// SPDX-License-Identifier: Apache-2.0
// Owns the registrations of xLLM instances in etcd, as their service (xllm-service) sees them: keys
// XLLM:ROLE:NAME, perhaps after /NAMESPACE/, whose values are JSON objects, under leases of some
// seconds.  NAME is IP:PORT.
// Threads: one at a time.
#ifndef PPC_EXTRAS_XLLM_REGISTRATIONS_H_
#define PPC_EXTRAS_XLLM_REGISTRATIONS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "daemon/base/json.h"
#include "daemon/base/result.h"

namespace ppc::ctl::xllm {

struct Instance {
  std::string name;
  std::string incarnation;  // differs for another process
  std::string rpc_address;
  std::string lease;  // "": none
};

// Changes of the instances since the last look.
struct Changes {
  std::vector<Instance> appeared;
  std::vector<Instance> expired;       // the lease was not renewed: they have died
  std::vector<Instance> deregistered;  // removed before the lease ran out: a clean end
  std::vector<std::string> refused;    // one line for each malformed value, once
};

class Registrations {
 public:
  // As AskEtcd, for one etcd.
  using Ask = std::function<Result<Json>(const std::string& path, const Json& request)>;

  // name_space: "" or xLLM's --etcd_namespace.
  Registrations(Ask ask, const std::string& name_space);

  // On EIO, ETIMEDOUT, EPROTO...: nothing has changed.
  Result<Changes> Look(uint64_t now_ns);
  size_t size() const { return known_.size(); }

 private:
  struct Known {
    Instance instance;
    uint64_t runs_out_ns = 0;  // of its lease, at the last look
  };
  struct Seen {
    std::string key;
    std::string value;
    std::string lease;
    std::string revision;
  };
  Result<std::vector<Seen>> List() const;
  // Remaining time of a lease; 0: unknown.
  uint64_t SecondsLeft(const std::string& lease) const;

  const Ask ask_;
  const std::string prefix_;
  std::map<std::string, Known> known_;             // by key
  std::map<std::string, std::string> complained_;  // key, revision of a malformed value
};

}  // namespace ppc::ctl::xllm

#endif  // PPC_EXTRAS_XLLM_REGISTRATIONS_H_
