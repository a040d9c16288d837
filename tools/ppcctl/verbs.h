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
int ExplainPid(const Args& args);
int PolicyMessage(const Args& args);
int TemplateList(const Args& args);
int TemplateShow(const Args& args);
int TemplateDump(const Args& args);
int TemplateDiff(const Args& args);
int TemplateVerify(const Args& args);
int TemplateMerge(const Args& args);
int TemplateRm(const Args& args);
int TemplateRerecord(const Args& args);
int TemplateSynth(const Args& args);
int Residency(const Args& args);
int Warm(const Args& args);
int Drop(const Args& args);
int Plan(const Args& args);
int Wait(const Args& args);
int IsActive(const Args& args);
int BindPid(const Args& args);
int Xpus(const Args& args);
int Top(const Args& args);
int Events(const Args& args);
int Logs(const Args& args);
int Metrics(const Args& args);
int Off(const Args& args);
int On(const Args& args);

}  // namespace ppc::ctl

#endif  // PPC_TOOLS_PPCCTL_VERBS_H_
