// SPDX-License-Identifier: Apache-2.0
// Owns finding templates for the verbs that work on them.
#ifndef PPC_TOOLS_PPCCTL_TEMPLATE_STORE_H_
#define PPC_TOOLS_PPCCTL_TEMPLATE_STORE_H_

#include <string>

#include "daemon/base/result.h"
#include "policies/maio/template/template.h"
#include "tools/ppcctl/args.h"

namespace ppc::ctl {

// --dir, else TemplateDir() of user_dirs.h.
std::string TemplateStoreDir(const Args& args);

// A file, or the ID of a template in the store.  EINVAL: it is neither.
Result<maio::Template> LoadTemplate(const Args& args, const std::string& given);

}  // namespace ppc::ctl

#endif  // PPC_TOOLS_PPCCTL_TEMPLATE_STORE_H_
