// SPDX-License-Identifier: Apache-2.0
#include "tools/ppcctl/user_dirs.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "tools/ppcctl/environment.h"

namespace ppc::ctl {
namespace {

constexpr const char* kSystemTemplateDir = "/var/lib/ppc/templates";
constexpr const char* kSystemRuntimeDir = "/run/ppc";
// A socket below it must fit into the 107 bytes of an address.
constexpr size_t kMaxRuntimeBase = 70;

Status MakeDirectories(const std::string& path, mode_t mode) {
  for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    if (mkdir(part.c_str(), mode) != 0 && errno != EEXIST)
      return PosixError("mkdir " + part, errno);
    if (end == std::string::npos) return Ok();
  }
}

}  // namespace

std::string TemplateDir() {
  if (std::string given = FromEnvironment("PPC_TEMPLATE_DIR"); !given.empty()) return given;
  if (geteuid() == 0) return kSystemTemplateDir;
  if (const std::string state = FromEnvironment("XDG_STATE_HOME"); state.starts_with('/')) {
    return state + "/ppc/templates";
  }
  const std::string home = FromEnvironment("HOME");
  return home.starts_with('/') ? home + "/.local/state/ppc/templates" : "";
}

std::string ArtifactDir() {
  if (std::string given = FromEnvironment("PPC_ARTIFACT_DIR"); !given.empty()) return given;
  const std::string templates = TemplateDir();
  if (templates.empty()) return "";
  const size_t slash = templates.rfind('/', templates.find_last_not_of('/'));
  return slash == std::string::npos ? "artifacts" : templates.substr(0, slash) + "/artifacts";
}

Result<std::string> MakeRuntimeDir() {
  std::vector<std::string> bases = {kSystemRuntimeDir, "/tmp"};
  if (const std::string own = FromEnvironment("XDG_RUNTIME_DIR");
      own.starts_with('/') && own.size() <= kMaxRuntimeBase) {
    bases.insert(bases.begin(), own);
  }
  if (geteuid() == 0) (void)MakeDirectories(kSystemRuntimeDir, 0755);
  int code = ENOENT;
  for (const std::string& base : bases) {
    std::string name = base + "/ppc-run-XXXXXX";
    if (mkdtemp(name.data()) != nullptr) return name;
    code = errno;
  }
  return PosixError("no directory for a private ppcd below " + bases.front() + " or /tmp", code);
}

Status MakeStateDirectories(const std::string& path) {
  return MakeDirectories(path, geteuid() == 0 ? 0755 : 0700);
}

}  // namespace ppc::ctl
