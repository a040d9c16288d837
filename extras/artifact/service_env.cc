// SPDX-License-Identifier: Apache-2.0
// ppcctl service env, and `run --env-from-service`.
#include "extras/artifact/service_env.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "extras/artifact/files_at.h"
#include "extras/artifact/options.h"
#include "extras/artifact/values.h"
#include "extras/artifact/verbs.h"
#include "tools/ppcctl/output.h"
#include "tools/ppcctl/spec.h"
#include "tools/ppcctl/text.h"

namespace ppc::ctl {
namespace {

using artifact::Store;
using artifact::Values;

constexpr int kValuesLockMs = 5000;

// Reads the values that an earlier start kept.
Result<Values> Kept(const Args& args, const std::string& id) {
  const Result<Store> store = Store::Open(ArtifactPlace(args), Store::Use::kRead, kValuesLockMs);
  if (!store && store.error().code == ENOENT) return Values{};
  if (!store) return store.error();
  return artifact::LoadValues(*store, id);
}

Status Change(const Args& args, const std::string& id, const Values& changes, Values* kept) {
  const Result<Store> store = Store::Open(ArtifactPlace(args), Store::Use::kWrite, kValuesLockMs);
  if (!store) return store.error();
  // Serialises with other changes.
  const UniqueFd lock(
      openat(store->fd(), "values.lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock.IsValid()) return store->Failure("open values.lock", errno);
  if (const int code = artifact::LockWithin(lock.Get(), LOCK_EX, kValuesLockMs); code != 0)
    return store->Failure("lock", code);
  Result<Values> values = artifact::LoadValues(*store, id);
  if (!values) return values.error();
  for (const auto& [name, value] : changes) {
    if (value.empty()) {
      values->erase(name);
    } else {
      (*values)[name] = value;
    }
  }
  if (Status status = artifact::SaveValues(*store, id, *values); !status) return status;
  *kept = *std::move(values);
  return Ok();
}

int Print(const std::string& id, const Values& values) {
  if (WantsJson()) {
    Json named = Json::object();
    for (const auto& [name, value] : values) named[name] = value;
    PrintJson({{"service_id", id}, {"values", named}});
    return kExitOk;
  }
  for (const auto& [name, value] : values)
    std::printf("export %s=%s\n", name.c_str(), ShellWord(value).c_str());
  return kExitOk;
}

}  // namespace

int ServiceEnv(const Args& args) {
  const bool has_id = !args.operands.empty() && args.operands[0].find('=') == std::string::npos;
  const Result<std::string> id = has_id ? args.operands[0] : ReadServiceId(args);
  if (!id) return WrongUsage(id.error().message);
  Values changes;
  for (size_t i = has_id ? 1 : 0; i < args.operands.size(); ++i) {
    const auto value = artifact::ReadValue(args.operands[i]);
    if (!value) return WrongUsage(value.error().message);
    changes[value->first] = value->second;
  }
  if (changes.empty()) {
    const Result<Values> kept = Kept(args, *id);
    return kept ? Print(*id, *kept) : Failed(kept.error());
  }
  Values kept;
  if (const Status status = Change(args, *id, changes, &kept); !status)
    return Failed(status.error());
  return WantsJson() ? Print(*id, kept) : kExitOk;
}

Result<std::vector<std::pair<std::string, std::string>>> KeptEnvironment(const Args& args,
                                                                         const std::string& id) {
  const Result<Values> kept = Kept(args, id);
  if (!kept) return kept.error();
  std::vector<std::pair<std::string, std::string>> environment;
  for (const auto& [name, value] : *kept) {
    // Variables set for this start take precedence.
    if (std::getenv(name.c_str()) == nullptr) environment.emplace_back(name, value);
  }
  return environment;
}

}  // namespace ppc::ctl
