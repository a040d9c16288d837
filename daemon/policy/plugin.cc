// SPDX-License-Identifier: Apache-2.0
#include "daemon/policy/plugin.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <exception>

#include "daemon/base/files.h"
#include "daemon/base/unique_fd.h"

#ifndef PPC_DEFAULT_POLICY_DIR
#define PPC_DEFAULT_POLICY_DIR "/usr/lib/ppc/policies"
#endif

namespace ppc {
namespace {

// A user who may change this file or directory may run code as this runner: only root may, or the
// ordinary user whose runner it is, unless the program has more rights (file capabilities).
Status CheckOwner(const std::string& path, const struct stat& st) {
  const bool is_own = st.st_uid == geteuid() && getauxval(AT_SECURE) == 0;
  if (st.st_uid != 0 && !is_own) {
    return Error{EACCES, path + " is not owned by root" +
                             (geteuid() == 0 ? "" : " or the runner's user") + ": chown root " +
                             path};
  }
  // Only root can replace root's files in a sticky directory.
  const bool sticky = S_ISDIR(st.st_mode) && (st.st_mode & S_ISVTX) != 0;
  if ((st.st_mode & (S_IWGRP | S_IWOTH)) != 0 && !sticky) {
    return Error{EACCES, path + " is writable by others than its owner: chmod go-w " + path};
  }
  return Ok();
}

Status CheckDirectories(std::string path) {
  while (path.size() > 1) {
    path = path.substr(0, path.rfind('/'));
    if (path.empty()) path = "/";
    struct stat st {};
    if (stat(path.c_str(), &st) != 0) return PosixError("stat " + path, errno);
    Status owned = CheckOwner(path, st);
    if (!owned) return owned;
  }
  return Ok();
}

std::string ProgramDirectory() {
  const std::string program = LinkTarget("/proc/self/exe");
  return program.substr(0, program.rfind('/'));
}

#if defined(__x86_64__)
constexpr uint16_t kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr uint16_t kMachine = EM_AARCH64;
#else
constexpr uint16_t kMachine = EM_NONE;
#endif

Status CheckElf(const std::string& path, int fd) {
  Elf64_Ehdr head{};
  const ssize_t got = pread(fd, &head, sizeof(head), 0);
  const bool is_library = got == static_cast<ssize_t>(sizeof(head)) &&
                          std::memcmp(head.e_ident, ELFMAG, SELFMAG) == 0 &&
                          head.e_ident[EI_CLASS] == ELFCLASS64 && head.e_type == ET_DYN;
  if (!is_library) return Error{ENOEXEC, path + " is not a 64-bit ELF shared library"};
  if (kMachine != EM_NONE && head.e_machine != kMachine) {
    return Error{ENOEXEC, path + " is built for another machine"};
  }
  return Ok();
}

Status CheckFile(const std::string& path, const PluginOptions& options) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.IsValid()) return PosixError("policy " + path, errno);
  struct stat st {};
  if (fstat(fd.Get(), &st) != 0) return PosixError("stat " + path, errno);
  if (!S_ISREG(st.st_mode)) return Error{EINVAL, path + " is not a regular file"};
  if (!options.allow_any_owner) {
    Status owned = CheckOwner(path, st);
    if (owned) owned = CheckDirectories(path);
    if (!owned) return owned;
  }
  return CheckElf(path, fd.Get());
}

}  // namespace

Result<std::unique_ptr<Plugin>> Plugin::Open(const std::string& path,
                                             const PluginOptions& options) {
  char real[PATH_MAX];
  if (path.empty() || path[0] != '/') {
    return Error{EINVAL, "policy path \"" + path + "\" must be absolute"};
  }
  if (realpath(path.c_str(), real) == nullptr) return PosixError("policy " + path, errno);
  const Status checked = CheckFile(real, options);
  if (!checked) return checked.error();
  void* const handle = dlopen(real, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* why = dlerror();
    return Error{ENOEXEC, std::string("cannot load policy: ") + (why == nullptr ? real : why)};
  }
  std::unique_ptr<Plugin> plugin(new Plugin(real, handle));
  const auto* abi = static_cast<const uint32_t*>(dlsym(handle, "ppc_policy_abi"));
  if (abi == nullptr) {
    return Error{EPROTO, plugin->path_ + " has no ppc_policy_abi: build it with this ppc.h"};
  }
  if (*abi != PPC_POLICY_ABI) {
    return Error{EPROTO, plugin->path_ + " is built for policy ABI " + std::to_string(*abi) +
                             ", this runtime has " + std::to_string(PPC_POLICY_ABI) +
                             ": rebuild it"};
  }
  auto* const entry = reinterpret_cast<ppc_operation* (*)()>(dlsym(handle, "register_policy"));
  if (entry == nullptr) {
    return Error{EPROTO, plugin->path_ + " does not export register_policy()"};
  }
  try {
    plugin->table_ = entry();
  } catch (const std::exception& e) {
    return Error{EPROTO, plugin->path_ + ": register_policy() threw: " + e.what()};
  } catch (...) {
    return Error{EPROTO, plugin->path_ + ": register_policy() threw"};
  }
  if (plugin->table_ == nullptr) {
    return Error{EPROTO, plugin->path_ + ": register_policy() returned NULL"};
  }
  return plugin;
}

Plugin::~Plugin() { dlclose(handle_); }

std::string Plugin::Name() const {
  std::string name = path_.substr(path_.rfind('/') + 1);
  if (name.starts_with("libppc_")) name = name.substr(7);
  return name.substr(0, name.find('.'));
}

Result<std::string> FindPolicy(const std::string& name_or_path, const std::string& directory) {
  if (!name_or_path.empty() && name_or_path[0] == '/') return name_or_path;
  for (const char c : name_or_path) {
    if (!isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '-') {
      return Error{EINVAL, "policy \"" + name_or_path +
                               "\" is neither a name nor an absolute path of a .so"};
    }
  }
  if (name_or_path.empty()) return Error{EINVAL, "policy name is empty"};
  const std::string file = "/libppc_" + name_or_path + ".so";
  if (!directory.empty()) return directory + file;
  const char* from_env = std::getenv("PPC_POLICY_DIR");
  if (from_env != nullptr) return from_env + file;
  // A build tree keeps its policies beside bin/, a wheel in the lib/ beside it: wherever that is.
  const std::string built = ProgramDirectory() + "/../policies";
  const std::string moved = ProgramDirectory() + "/../lib/ppc/policies";
  const std::string installed = PPC_DEFAULT_POLICY_DIR;
  for (const std::string& base : {built, moved, installed}) {
    if (access((base + file).c_str(), R_OK) == 0) return base + file;
  }
  return (access(built.c_str(), R_OK) == 0 ? built : installed) + file;
}

}  // namespace ppc
