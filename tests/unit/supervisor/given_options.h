// SPDX-License-Identifier: Apache-2.0
// Options of a verb as a test writes them.
#ifndef PPC_TESTS_UNIT_SUPERVISOR_GIVEN_OPTIONS_H_
#define PPC_TESTS_UNIT_SUPERVISOR_GIVEN_OPTIONS_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tools/ppcctl/args.h"

namespace ppc::ctl {

using Given = std::map<std::string, std::vector<std::string>>;

inline Args ArgsOf(Given options) {
  Args args;
  args.options = std::move(options);
  return args;
}

}  // namespace ppc::ctl

#endif  // PPC_TESTS_UNIT_SUPERVISOR_GIVEN_OPTIONS_H_
