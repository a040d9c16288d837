// SPDX-License-Identifier: Apache-2.0
#include "tools/ppcctl/guard_line.h"

namespace ppc::ctl {

std::string GuardLine(const Json& service) {
  const Json& guard = JsonMember(service, "guard");
  const auto word = [&guard](const char* key) {
    const Json& value = JsonMember(guard, key);
    return value.is_string() ? value.get<std::string>() : "";
  };
  const std::string state = word("state");
  const std::string reason = word("reason");
  if (state.empty() || state == "open") return "";
  return reason.empty() ? state : state + ": " + reason;
}

}  // namespace ppc::ctl
