// SPDX-License-Identifier: Apache-2.0
// The verbs on templates; extra.cc has the table.
#ifndef PPC_EXTRAS_TEMPLATES_TEMPLATE_VERBS_H_
#define PPC_EXTRAS_TEMPLATES_TEMPLATE_VERBS_H_

#include "tools/ppcctl/args.h"

namespace ppc::ctl {

int TemplateList(const Args& args);
int TemplateShow(const Args& args);
int TemplateDump(const Args& args);
int TemplateDiff(const Args& args);
int TemplateVerify(const Args& args);
int TemplateMerge(const Args& args);
int TemplateRm(const Args& args);
int TemplateRerecord(const Args& args);
int TemplateSynth(const Args& args);

}  // namespace ppc::ctl

#endif  // PPC_EXTRAS_TEMPLATES_TEMPLATE_VERBS_H_
