// SPDX-License-Identifier: Apache-2.0
// Owns what instances of xLLM have registered in etcd, as their service (xllm-service) sees it:
// keys XLLM:ROLE:NAME, perhaps behind /NAMESPACE/, whose values are JSON objects and which hang on
// leases of some seconds.  NAME is IP:PORT. Threads: one at a time.
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
  std::string incarnation;  // another process has another one
  std::string rpc_address;
  std::string lease;  // "": none
};

// How the instances of a look differ from those of the one before.
struct Changes {
  std::vector<Instance> appeared;
  std::vector<Instance> expired;       // their lease was not renewed: they have died
  std::vector<Instance> deregistered;  // before it had run out: they said goodbye
  std::vector<std::string> refused;    // one line for each value that is none, once
};

class Registrations {
 public:
  // As AskEtcd, of one etcd.
  using Ask = std::function<Result<Json>(const std::string& path, const Json& request)>;

  // name_space: "" or what xLLM calls --etcd_namespace.
  Registrations(Ask ask, const std::string& name_space);

  // EIO, ETIMEDOUT, EPROTO...: nothing has changed, then.
  Result<Changes> Look(uint64_t now_ns);
  size_t size() const { return known_.size(); }

 private:
  struct Known {
    Instance instance;
    uint64_t runs_out_ns = 0;  // its lease, as it was when it was looked at last
  };
  struct Seen {
    std::string key;
    std::string value;
    std::string lease;
    std::string revision;
  };
  Result<std::vector<Seen>> List() const;
  // The rest of a lease; 0: unknown.
  uint64_t SecondsLeft(const std::string& lease) const;

  const Ask ask_;
  const std::string prefix_;
  std::map<std::string, Known> known_;             // by key
  std::map<std::string, std::string> complained_;  // key, revision of a value that is none
};

}  // namespace ppc::ctl::xllm

#endif  // PPC_EXTRAS_XLLM_REGISTRATIONS_H_
