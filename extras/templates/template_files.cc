// SPDX-License-Identifier: Apache-2.0
// ppcctl template diff|verify|merge|rm|synth.
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <vector>

#include "daemon/machine/mount_table.h"
#include "extras/templates/stale_files.h"
#include "extras/templates/template_store.h"
#include "extras/templates/template_text.h"
#include "extras/templates/template_verbs.h"
#include "policies/maio/synth/synth.h"
#include "policies/maio/template/template.h"
#include "policies/maio/template/template_compare.h"
#include "tools/ppcctl/daemon_link.h"
#include "tools/ppcctl/output.h"
#include "tools/ppcctl/spec.h"
#include "tools/ppcctl/text.h"
#include "tools/ppcctl/user_dirs.h"

namespace ppc::ctl {
namespace {

constexpr int kExitTrouble = 2;

// The mount point of the ppc mount that a path lies on; empty: of none.
std::string PpcMountOf(const std::string& path) {
  const std::vector<MountEntry> table = ReadMountTable(RootsFromEnvironment());
  const MountEntry* entry = FindMount(table, path);
  return entry != nullptr && entry->type == "ppc" ? entry->point : "";
}

int FailWith(const std::string& message) {
  Complain(message);
  return kExitFailed;
}

constexpr int kPutTries = 20;

// As the next generation, whichever is there.
Status PutInStore(const GivenStore& given, maio::Template t) {
  std::string error;
  for (int again = 0; again < kPutTries; again++) {
    maio::TemplateStore::Value known;
    int code = given.store->Get(t.service_id, &known, &error);
    if (code != 0 && code != -ENOENT) return Error{-code, error};
    code = maio::PutTemplate(given.store.get(), given.Key(), t.service_id, &t,
                             code == 0 ? known.generation : 0, &error);
    if (code == 0) return Ok();
    if (code != -ESTALE) return Error{-code, error};
  }
  return Error{EAGAIN, error};
}

int StoreAndTell(const Args& args, const maio::Template& t) {
  const std::string store = TemplateStoreDir(args);
  std::string error;
  std::string path = maio::TemplatePath(store, t.service_id);
  if (WantsStore(args)) {
    const Result<GivenStore> given = OpenGivenStore(args);
    if (!given) return FailWith(given.error().message);
    if (const Status put = PutInStore(*given, t); !put) return FailWith(put.error().message);
    path = given->spec + ": " + t.service_id;
  } else {
    if (const Status made = MakeStateDirectories(store); !made)
      return FailWith(made.error().message);
    if (maio::Store(store, t, &error) != 0) return FailWith(error);
  }
  if (WantsJson()) {
    const Result<Json> json = ParseJson(maio::ToJson(t, false), path);
    if (!json) return FailWith(json.error().message);
    PrintJson({{"file", path}, {"template", *json}});
    return kExitOk;
  }
  std::printf("%s: %zu files, %zu groups, %s\n", path.c_str(), t.files.size(), t.groups.size(),
              HumanBytes(maio::DistinctBytes(t)).c_str());
  return kExitOk;
}

// --root, else the ppc mount below which the model lies.
Result<std::string> ReadRoot(const Args& args, const std::string& model) {
  if (args.Has("--root")) {
    const std::unique_ptr<char, FreeText> real(realpath(args.Get("--root").c_str(), nullptr));
    if (!real) return PosixError(args.Get("--root"), errno);
    return std::string(real.get());
  }
  std::string mount = PpcMountOf(model);
  if (mount.empty())
    return Error{EINVAL,
                 model + ": not on a ppc mount; give --root DIR, which the mount will show"};
  return mount;
}

// As of diff(1): 1 is an answer.
int CannotTell(const Error& error) {
  Complain(error);
  return kExitTrouble;
}

}  // namespace

int TemplateSynth(const Args& args) {
  const std::unique_ptr<char, FreeText> real(realpath(args.operands[0].c_str(), nullptr));
  if (!real) return FailWith(PosixError(args.operands[0], errno).message);
  const std::string model = real.get();
  const Result<std::string> root = ReadRoot(args, model);
  if (!root) return WrongUsage(root.error().message);
  if (model != *root && *root != "/" && !model.starts_with(*root + "/"))
    return WrongUsage(model + " is not below --root " + *root);
  maio::SynthOptions options;
  const Result<int64_t> tp = ReadWhole("--tp", args.Get("--tp", "1"), 1, maio::kMaxWorkers);
  if (!tp) return WrongUsage(tp.error().message);
  options.tp = static_cast<uint32_t>(*tp);
  if (args.Has("--loader")) {
    options.loader = maio::ParseLoaderKind(args.Get("--loader"));
    if (!options.loader)
      return WrongUsage("--loader '" + args.Get("--loader") + "' is not one of " +
                        maio::LoaderKindNames());
  }
  const Result<std::string> id = ReadServiceId(args);
  if (!id) return WrongUsage(id.error().message);
  if (!maio::ValidServiceId(*id)) return WrongUsage("'" + *id + "' is not a service ID");
  options.service_id = *id;
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  options.created_ns =
      static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
  maio::DirectorySource source(*root);
  const std::string below = model == *root ? "" : model.substr(*root == "/" ? 1 : root->size() + 1);
  std::string error;
  const std::optional<maio::Template> t = maio::Synthesize(&source, below, options, &error);
  if (!t) return FailWith(error);
  return StoreAndTell(args, *t);
}

int TemplateDiff(const Args& args) {
  const Result<maio::Template> a = LoadTemplate(args, args.operands[0]);
  if (!a) return CannotTell(a.error());
  const Result<maio::Template> b = LoadTemplate(args, args.operands[1]);
  if (!b) return CannotTell(b.error());
  bool same = false;
  const Result<Json> json = ParseJson(maio::DiffJson(*a, *b, &same), "diff");
  if (!json) return CannotTell(json.error());
  if (WantsJson()) {
    PrintJson(*json);
    return same ? kExitOk : kExitFailed;
  }
  for (const Json& file : (*json)["files"])
    std::printf("%s: %s\n", file.value("path", "").c_str(),
                file.contains("changed") ? "changed"
                                         : ("only in the " + file.value("only_in", "")).c_str());
  for (const Json& group : (*json)["groups"]) {
    const uint64_t first = group.value("only_in_first", uint64_t{0});
    const uint64_t second = group.value("only_in_second", uint64_t{0});
    if (first + second == 0) continue;
    std::printf("group %s: %s in both, %s only in the first, %s only in the second\n",
                DumpJson(group["group"]).c_str(),
                HumanBytes(group.value("both", uint64_t{0})).c_str(), HumanBytes(first).c_str(),
                HumanBytes(second).c_str());
  }
  return same ? kExitOk : kExitFailed;
}

int TemplateVerify(const Args& args) {
  const Result<maio::Template> t = LoadTemplate(args, args.operands[0]);
  if (!t) return Failed(t.error());
  const bool has_root = args.Has("--root");
  const Json stale = has_root ? StaleFiles(*t, args.Get("--root")) : Json::array();
  if (WantsJson()) {
    PrintJson({{"service_id", t->service_id}, {"files", t->files.size()}, {"changed", stale}});
    return stale.empty() ? kExitOk : kExitFailed;
  }
  for (const Json& file : stale) {
    std::printf("%s: %s\n", file.value("path", "").c_str(), file.value("problem", "").c_str());
  }
  if (!stale.empty())
    return FailWith(t->service_id + ": " + std::to_string(stale.size()) + " of " +
                    std::to_string(t->files.size()) +
                    " files changed; they are read from their headers until it is recorded anew");
  std::printf("%s: %zu files, undamaged%s\n", t->service_id.c_str(), t->files.size(),
              has_root ? " and unchanged" : "");
  return kExitOk;
}

// Names of a service's parts in the store that is given.
Result<std::vector<std::string>> PartsIn(const Args& args, const std::string& id) {
  const Result<GivenStore> given = OpenGivenStore(args);
  if (!given) return given.error();
  std::vector<std::string> names;
  std::string error;
  if (const int code = given->store->List(&names, &error); code != 0) return Error{-code, error};
  std::erase_if(names, [&](const std::string& name) {
    return name == id || maio::ServiceOfName(name) != id;
  });
  if (names.empty()) return Error{ENOENT, given->spec + ": no parts of service " + id};
  return names;
}

int TemplateMerge(const Args& args) {
  std::vector<std::string> names = args.operands;
  if (WantsStore(args) && names.size() == 1 && maio::ValidServiceId(names[0]) &&
      maio::ServiceOfName(names[0]) == names[0]) {
    Result<std::vector<std::string>> parts = PartsIn(args, names[0]);
    if (!parts) return FailWith(parts.error().message);
    names = std::move(parts).value();
  }
  std::vector<maio::Template> parts;
  for (const std::string& name : names) {
    Result<maio::Template> part = LoadTemplate(args, name);
    if (!part) return FailWith(part.error().message);
    parts.push_back(std::move(part).value());
  }
  std::string error;
  const std::optional<maio::Template> merged = maio::Merge(parts, &error);
  if (!merged) return FailWith("not merged: " + error);
  return StoreAndTell(args, *merged);
}

int TemplateRerecord(const Args& args) {
  const std::string& id = args.operands[0];
  if (!maio::ValidServiceId(id)) return WrongUsage("'" + id + "' is not a service ID");
  Result<maio::Template> known =
      LoadTemplate(args, WantsStore(args) ? id : maio::TemplatePath(TemplateStoreDir(args), id));
  if (!known) return FailWith(known.error().message);
  known->flags |= maio::kRerecord;
  std::string error;
  if (WantsStore(args)) {
    const Result<GivenStore> given = OpenGivenStore(args);
    if (!given) return FailWith(given.error().message);
    if (const Status put = PutInStore(*given, *known); !put) return FailWith(put.error().message);
  } else if (maio::Store(TemplateStoreDir(args), *known, &error) != 0) {
    return FailWith(error);
  }
  if (WantsJson()) {
    PrintJson({{"service_id", id}, {"rerecord", true}});
  } else {
    std::printf("%s: the next start is recorded; it follows this template meanwhile\n", id.c_str());
  }
  return kExitOk;
}

int TemplateRm(const Args& args) {
  if (WantsStore(args)) {
    const Result<GivenStore> given = OpenGivenStore(args);
    if (!given) return FailWith(given.error().message);
    std::string error;
    const int code = given->store->Remove(args.operands[0], &error);
    if (code == -EINVAL) return WrongUsage(error);
    return code == 0 ? kExitOk : FailWith(error);
  }
  const std::string path = maio::TemplatePath(TemplateStoreDir(args), args.operands[0]);
  if (path.empty()) return WrongUsage("'" + args.operands[0] + "' is not a service ID");
  if (unlink(path.c_str()) == 0) return kExitOk;
  return FailWith(errno == ENOENT
                      ? path + ": no such template; `ppcctl template list` shows what there is"
                      : PosixError(path, errno).message);
}

}  // namespace ppc::ctl
