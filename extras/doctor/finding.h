// SPDX-License-Identifier: Apache-2.0
// Owns a finding of `ppcctl doctor`: a cause and its remedy.
#ifndef PPC_EXTRAS_DOCTOR_FINDING_H_
#define PPC_EXTRAS_DOCTOR_FINDING_H_

#include <string>
#include <vector>

namespace ppc::ctl {

struct Finding {
  std::string code;    // for programs: "no-btf"; never changes
  std::string about;   // a directory, a service, a process; "" = the machine
  std::string cause;   // one line
  std::string remedy;  // a shell command; text if none helps
  // False: no fault, but the reason why a start is not faster.
  bool is_problem = true;
};

using Findings = std::vector<Finding>;

}  // namespace ppc::ctl

#endif  // PPC_EXTRAS_DOCTOR_FINDING_H_
