// SPDX-License-Identifier: Apache-2.0
// Owns finding templates for the verbs that work on them.
#ifndef PPC_EXTRAS_TEMPLATES_TEMPLATE_STORE_H_
#define PPC_EXTRAS_TEMPLATES_TEMPLATE_STORE_H_

#include <memory>
#include <optional>
#include <string>

#include "daemon/base/result.h"
#include "daemon/cli/command_line.h"
#include "policies/maio/template/store.h"
#include "policies/maio/template/template.h"
#include "tools/ppcctl/args.h"

namespace ppc::ctl {

inline constexpr cli::Option kStore = {
    "--dir", "DIR",
    "template store; default $PPC_TEMPLATE_DIR, else for root\n"
    "/var/lib/ppc/templates, for others that in ~/.local/state/ppc"};

// --dir, else TemplateDir() of user_dirs.h.
std::string TemplateStoreDir(const Args& args);

// What --store and --store-key name.
struct GivenStore {
  std::unique_ptr<maio::TemplateStore> store;
  std::optional<maio::StoreKey> key;
  std::string spec;

  const maio::StoreKey* Key() const { return key ? &*key : nullptr; }
};
bool WantsStore(const Args& args);
Result<GivenStore> OpenGivenStore(const Args& args);

// A file, or the ID of a template in the store, or the name of a part there.  EINVAL: it is
// neither.
Result<maio::Template> LoadTemplate(const Args& args, const std::string& given);

}  // namespace ppc::ctl

#endif  // PPC_EXTRAS_TEMPLATES_TEMPLATE_STORE_H_
