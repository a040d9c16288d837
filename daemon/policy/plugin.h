// SPDX-License-Identifier: Apache-2.0
// Owns a loaded policy library: the only dlopen.  Everything that can be checked is
// checked before a function of the library is called; what cannot be trusted is not
// even opened, because opening runs its constructors.
// Paper: section 3.2 (policy executor).
#ifndef PPC_DAEMON_POLICY_PLUGIN_H_
#define PPC_DAEMON_POLICY_PLUGIN_H_

#include <ppc.h>

#include <memory>
#include <string>

#include "daemon/base/result.h"

namespace ppc {

struct PluginOptions {
  // Only for tests: skips the owner and mode checks of the file and its directories.
  bool allow_any_owner = false;
};

class Plugin {
 public:
  // `path` must be absolute.  EACCES: neither root's nor the runner's user's, or others write it;
  // ENOEXEC: not a shared library of this machine; EPROTO: another ABI; ENOENT, EINVAL.
  static Result<std::unique_ptr<Plugin>> Open(const std::string& path,
                                              const PluginOptions& options = {});
  ~Plugin();
  Plugin(const Plugin&) = delete;
  Plugin& operator=(const Plugin&) = delete;

  const ppc_operation& table() const { return *table_; }
  const std::string& path() const { return path_; }
  // "maio" of ".../libppc_maio.so".
  std::string Name() const;

 private:
  Plugin(std::string path, void* handle) : path_(std::move(path)), handle_(handle) {}

  const std::string path_;
  void* const handle_;
  const ppc_operation* table_ = nullptr;
};

// Path of a policy given by name ("maio") or by absolute path.  `directory` "" = $PPC_POLICY_DIR,
// else the installed one.
Result<std::string> FindPolicy(const std::string& name_or_path, const std::string& directory = "");

}  // namespace ppc

#endif  // PPC_DAEMON_POLICY_PLUGIN_H_
