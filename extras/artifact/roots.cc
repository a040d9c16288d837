// SPDX-License-Identifier: Apache-2.0
#include "extras/artifact/roots.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <initializer_list>

namespace ppc::artifact {
namespace {

std::string FirstOf(const Environment& environment, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (std::string value = environment(name); !value.empty()) return value;
  }
  return "";
}

// As Python's getpass.getuser(), with separators replaced as in torch; also for a user without a
// name, which is common in containers.
std::string UserName(const Environment& environment) {
  std::string name = FirstOf(environment, {"LOGNAME", "USER", "LNAME", "USERNAME"});
  if (name.empty()) {
    const passwd* entry = getpwuid(geteuid());  // NOLINT: one thread, at the beginning
    name = entry != nullptr ? entry->pw_name : "uid_" + std::to_string(geteuid());
  }
  for (char& c : name) {
    if (std::string("\\/:*?\"<>|").find(c) != std::string::npos) c = '_';
  }
  return name;
}

std::string Absolute(const std::string& directory) {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::absolute(directory, error);
  std::string text = error ? directory : path.lexically_normal().string();
  if (text.size() > 1 && text.back() == '/') text.pop_back();
  return text;
}

}  // namespace

Environment OwnEnvironment() {
  return [](const std::string& name) {
    const char* value = std::getenv(name.c_str());
    return std::string(value == nullptr ? "" : value);
  };
}

std::vector<Root> DefaultRoots(const Environment& environment) {
  const std::string home = environment("HOME");
  const auto in_home = [&home](const std::string& path) {
    return home.empty() ? home : home + path;
  };
  const auto or_else = [&environment](const char* variable, const std::string& fallback) {
    const std::string value = environment(variable);
    return value.empty() ? fallback : value;
  };
  const auto below = [](const std::string& directory, const std::string& path) {
    return directory.empty() ? directory : directory + path;
  };
  std::string temporary = FirstOf(environment, {"TMPDIR", "TEMP", "TMP"});
  if (temporary.empty()) temporary = "/tmp";
  const std::string inductor = temporary + "/torchinductor_" + UserName(environment);
  const std::vector<Root> all = {
      {"vllm",
       or_else("VLLM_CACHE_ROOT", below(or_else("XDG_CACHE_HOME", in_home("/.cache")), "/vllm"))},
      {"inductor", or_else("TORCHINDUCTOR_CACHE_DIR", inductor)},
      // Beside the others.
      {"inductor-headers", inductor + "/precompiled_headers"},
      {"triton",
       or_else("TRITON_CACHE_DIR", below(or_else("TRITON_HOME", home), "/.triton/cache"))},
      {"flashinfer", below(or_else("FLASHINFER_WORKSPACE_BASE", home), "/.cache/flashinfer")},
      {"deepgemm", or_else("DG_JIT_CACHE_DIR", or_else("DG_CACHE_DIR", in_home("/.deep_gemm")))},
      {"cuda", or_else("CUDA_CACHE_PATH", in_home("/.nv/ComputeCache"))},
  };
  std::vector<Root> named;
  for (const Root& root : all) {
    if (!root.directory.empty()) named.push_back(Root{root.name, Absolute(root.directory)});
  }
  return named;
}

Result<std::vector<Root>> RootsWith(const Environment& environment,
                                    const std::vector<std::string>& given) {
  std::vector<Root> roots = DefaultRoots(environment);
  for (const std::string& pair : given) {
    const size_t equals = pair.find('=');
    if (equals == std::string::npos) {
      return Error{EINVAL, "--root '" + pair + "' is not NAME=DIR"};
    }
    const std::string name = pair.substr(0, equals);
    if (Status status = CheckRootName(name); !status) return status.error();
    std::erase_if(roots, [&name](const Root& root) { return root.name == name; });
    const std::string directory = pair.substr(equals + 1);
    if (!directory.empty()) roots.push_back(Root{name, Absolute(directory)});
  }
  return roots;
}

}  // namespace ppc::artifact
