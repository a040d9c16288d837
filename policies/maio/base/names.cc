// SPDX-License-Identifier: Apache-2.0
#include "policies/maio/base/names.h"

#include <algorithm>

namespace ppc::maio {

bool ValidServiceId(const std::string& service_id) {
  if (service_id.size() < 4 || service_id.size() > 64 || service_id[0] == '.') return false;
  return std::all_of(service_id.begin(), service_id.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' ||
           c == '_' || c == '-';
  });
}

}  // namespace ppc::maio
