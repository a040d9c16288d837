// SPDX-License-Identifier: Apache-2.0
// Owns what `ppcctl doctor` finds: a cause, and what to do about it.
#ifndef PPC_EXTRAS_DOCTOR_FINDING_H_
#define PPC_EXTRAS_DOCTOR_FINDING_H_

#include <string>
#include <vector>

namespace ppc::ctl {

struct Finding {
  std::string code;    // for programs: "no-btf"; the same cause has the same one for ever
  std::string about;   // a directory, a service, a process; "" = the machine
  std::string cause;   // one line
  std::string remedy;  // a command of the shell that clears it; words where none can
  // False: nothing is wrong, but it is why a start is not faster.
  bool is_problem = true;
};

using Findings = std::vector<Finding>;

}  // namespace ppc::ctl

#endif  // PPC_EXTRAS_DOCTOR_FINDING_H_
