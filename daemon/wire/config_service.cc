// SPDX-License-Identifier: Apache-2.0
#include "daemon/wire/config_service.h"

#include <unistd.h>

#include <cerrno>
#include <string>

#include "daemon/wire/service_id.h"

namespace ppc::control {

Result<Json> ServiceInConfig(const Json& config) {
  if (!config.is_object() || !config.contains("service_id")) return Json();
  const Json& id = config["service_id"];
  if (!id.is_string()) return Error{EINVAL, "\"service_id\" of a configuration must be text"};
  if (Status status = CheckServiceId(id.get<std::string>()); !status) return status.error();
  Json message{{"op", "service_start"},
               {"service_id", id},
               {"service", 0},
               {"by_cgroup", false},
               {"ready", true},  // nothing is loaded before its first reader
               {"owner", {{"cgroup", ""}, {"uid", geteuid()}}}};
  for (const char* key : {"params", "xpus", "workers", "node", "nodes", "first_worker"}) {
    if (config.contains(key)) message[key] = config[key];
  }
  if (!config.contains("workers") && config.contains("xpus") && config["xpus"].is_array()) {
    message["workers"] = config["xpus"].size();
  }
  // The group that pays where there is no service pays for this one.
  const Json runtime = config.value("runtime", Json());
  if (runtime.is_object() && runtime.contains("cgroup")) message["cgroup"] = runtime["cgroup"];
  return message;
}

}  // namespace ppc::control
