// SPDX-License-Identifier: Apache-2.0
// The verbs of ppcctl, one file each (or each family); program.cc has the table.
#ifndef PPC_TOOLS_PPCCTL_VERBS_H_
#define PPC_TOOLS_PPCCTL_VERBS_H_

#include "tools/ppcctl/args.h"

namespace ppc::ctl {

int RegPolicy(const Args& args);
int RmPolicy(const Args& args);
int ServiceStart(const Args& args);
int ServiceReady(const Args& args);
int ServicePhase(const Args& args);
int ServiceFailed(const Args& args);
int ServiceStop(const Args& args);
int ServiceId(const Args& args);
int Run(const Args& args);
int List(const Args& args);
int ShowStatus(const Args& args);
int PolicyMessage(const Args& args);
int BindPid(const Args& args);
int Xpus(const Args& args);
int Off(const Args& args);
int On(const Args& args);

}  // namespace ppc::ctl

#endif  // PPC_TOOLS_PPCCTL_VERBS_H_
