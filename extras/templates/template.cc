// SPDX-License-Identifier: Apache-2.0
// ppcctl template list, show and dump: they read template files and ask no daemon.
#include "policies/maio/template/template.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <vector>

#include "daemon/base/json.h"
#include "extras/templates/template_store.h"
#include "extras/templates/template_text.h"
#include "extras/templates/template_verbs.h"
#include "tools/ppcctl/daemon_link.h"
#include "tools/ppcctl/output.h"
#include "tools/ppcctl/text.h"
#include "tools/ppcctl/user_dirs.h"

namespace ppc::ctl {
namespace {

constexpr const char* kSuffix = ".ppct";

// Small files are many, and said in one row.
std::string FileTable(const maio::Template& t) {
  std::vector<std::vector<std::string>> rows = {{"  FILE", "KIND", "SIZE"}};
  uint64_t small_files = 0, small_bytes = 0;
  for (const maio::TemplateFile& file : t.files) {
    if (file.kind == maio::FileKind::kSmall) {
      ++small_files;
      small_bytes += file.size;
    } else {
      rows.push_back({"  " + file.path, maio::KindName(file.kind), HumanBytes(file.size)});
    }
  }
  if (small_files != 0) {
    rows.push_back(
        {"  " + std::to_string(small_files) + " small files", "", HumanBytes(small_bytes)});
  }
  return Table(rows);
}

// SEQUENCE: what its workers read, in that order; of several nodes each has its own numbers.
std::string GroupTable(const maio::Template& t) {
  std::vector<std::vector<std::string>> rows = {{"  WORKER", "NODE", "SEQUENCE", "PIECES", "TIME"}};
  for (const maio::TemplateGroup& group : t.groups) {
    const bool is_common = group.id == maio::kCommonGroup;
    rows.push_back({is_common ? "  several" : "  " + std::to_string(group.id),
                    std::to_string(group.node), HumanBytes(maio::SequenceBytes(group)),
                    std::to_string(group.extents.size()),
                    HumanSeconds(static_cast<double>(group.first_ms) / 1000) + " to " +
                        HumanSeconds(static_cast<double>(group.last_ms) / 1000)});
  }
  return Table(rows);
}

void PrintForPeople(const maio::Template& t, const Json& json) {
  std::string flags;
  for (const Json& flag : json["flags"]) flags += " " + flag.get<std::string>();
  std::printf("service %s  generation %llu  %s\n", t.service_id.c_str(),
              static_cast<unsigned long long>(t.generation), LocalTime(t.created_ns).c_str());
  std::printf(" %s  %s of the model, %s of template\n", flags.c_str(),
              HumanBytes(maio::DistinctBytes(t)).c_str(),
              HumanBytes(json["template_bytes"].get<uint64_t>()).c_str());
  std::printf("%s%s", FileTable(t).c_str(), GroupTable(t).c_str());
  for (const Json& phase : json.value("phases", Json::array())) {
    std::printf("  phase %s  after %s  %s read%s\n", phase["phase"].get<std::string>().c_str(),
                HumanSeconds(phase["ms"].get<double>() / 1000).c_str(),
                HumanBytes(phase["bytes"].get<uint64_t>()).c_str(),
                phase["told"].get<bool>() ? "" : "  (seen, not told)");
  }
}

int PrintTemplate(const Args& args, bool with_extents) {
  const Result<maio::Template> loaded = LoadTemplate(args, args.operands[0]);
  if (!loaded) {
    if (loaded.error().code == EINVAL) return WrongUsage(loaded.error().message);
    return Failed(loaded.error());
  }
  const Result<Json> json = ParseJson(maio::ToJson(*loaded, with_extents), "template");
  if (!json) return Failed(json.error());
  if (WantsJson() || with_extents) {
    PrintJson(*json);
  } else {
    PrintForPeople(*loaded, *json);
  }
  return kExitOk;
}

std::vector<std::string> FilesOf(const std::string& store, std::error_code& error) {
  std::vector<std::string> files;
  std::filesystem::recursive_directory_iterator entry(store, error);
  for (; !error && entry != std::filesystem::recursive_directory_iterator();
       entry.increment(error)) {
    if (entry.depth() <= 1 && entry->path().extension() == kSuffix) files.push_back(entry->path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

void Describe(const maio::Template& t, Json* entry) {
  (*entry)["service_id"] = t.service_id;
  (*entry)["complete"] = (t.flags & maio::kComplete) != 0;
  (*entry)["synthetic"] = (t.flags & maio::kSynthetic) != 0;
  (*entry)["warm_suspect"] = (t.flags & maio::kWarmSuspect) != 0;
  (*entry)["overflow"] = (t.flags & maio::kOverflow) != 0;
  (*entry)["rerecord"] = (t.flags & maio::kRerecord) != 0;
  (*entry)["files"] = t.files.size();
  (*entry)["groups"] = t.groups.size();
  (*entry)["workers"] = std::ranges::count_if(
      t.groups, [](const auto& group) { return group.id != maio::kCommonGroup; });
  (*entry)["bytes"] = maio::DistinctBytes(t);
}

Result<Json> ListDirectory(const Args& args) {
  const std::string store = TemplateStoreDir(args);
  std::error_code error;
  const std::vector<std::string> files = FilesOf(store, error);
  if (error && error != std::errc::no_such_file_or_directory)
    return Error{error.value(), store + ": " + error.message()};
  Json list = Json::array();
  for (const std::string& file : files) {
    maio::Template loaded;
    std::string problem;
    Json entry{{"file", file}};
    if (maio::Load(file, &loaded, &problem) == 0) {
      Describe(loaded, &entry);
    } else {
      entry["error"] = problem;
    }
    list.push_back(std::move(entry));
  }
  return Json{{"store", store}, {"templates", list}};
}

Result<Json> ListStore(const Args& args) {
  const Result<GivenStore> given = OpenGivenStore(args);
  if (!given) return given.error();
  std::vector<std::string> names;
  std::string error;
  if (const int code = given->store->List(&names, &error); code != 0) return Error{-code, error};
  Json list = Json::array();
  for (const std::string& name : names) {
    maio::Template loaded;
    std::string problem;
    uint64_t generation = 0;
    Json entry{{"name", name}};
    const int code =
        maio::GetTemplate(given->store.get(), given->Key(), name, &loaded, &generation, &problem);
    if (code == -ENOENT) continue;  // removed meanwhile
    if (code == 0) {
      Describe(loaded, &entry);
      entry["generation"] = generation;
    } else {
      entry["file"] = name;
      entry["error"] = problem;
    }
    list.push_back(std::move(entry));
  }
  return Json{{"store", given->spec}, {"templates", list}};
}

}  // namespace

bool WantsStore(const Args& args) { return args.Has("--store") || args.Has("--store-key"); }

std::string TemplateStoreDir(const Args& args) { return args.Get("--dir", TemplateDir()); }

Result<GivenStore> OpenGivenStore(const Args& args) {
  GivenStore given;
  std::string error;
  given.spec = args.Get("--store");
  if (given.spec.empty()) return Error{EINVAL, "--store-key is of a store; give --store, too"};
  given.store = maio::OpenStore(given.spec, &error);
  if (given.store == nullptr) return Error{EINVAL, error};
  if (!args.Has("--store-key")) return given;
  given.key = maio::StoreKey::Load(args.Get("--store-key"), &error);
  if (!given.key) return Error{EACCES, error};
  return given;
}

Result<maio::Template> LoadTemplate(const Args& args, const std::string& given) {
  struct stat info {};
  const bool is_file = given.find('/') != std::string::npos || stat(given.c_str(), &info) == 0;
  maio::Template loaded;
  std::string error;
  if (!is_file && !maio::ValidStoreName(given))
    return Error{EINVAL, "'" + given + "' is neither a file nor a service ID"};
  if (!is_file && WantsStore(args)) {
    const Result<GivenStore> store = OpenGivenStore(args);
    if (!store) return store.error();
    const int code =
        maio::GetTemplate(store->store.get(), store->Key(), given, &loaded, nullptr, &error);
    if (code != 0) return Error{-code == EINVAL ? EBADMSG : -code, error};
    return loaded;
  }
  const std::string dir = TemplateStoreDir(args) + "/" + given.substr(0, 2) + "/";
  const std::string path = is_file ? given : dir + given + kSuffix;
  const int code = maio::Load(path, &loaded, &error);
  if (code == -ENOENT)
    return Error{ENOENT, path + ": no such template; `ppcctl template list` shows what there is"};
  if (code != 0) return Error{EBADMSG, error};
  return loaded;
}

int TemplateList(const Args& args) {
  const Result<Json> listed = WantsStore(args) ? ListStore(args) : ListDirectory(args);
  if (!listed) {
    Complain(listed.error().message);
    return listed.error().code == EINVAL ? kExitUsage : kExitFailed;
  }
  if (WantsJson()) {
    PrintJson(*listed);
    return kExitOk;
  }
  const Json& list = (*listed)["templates"];
  for (const Json& entry : list) {
    if (entry.contains("error")) {
      std::printf("%s  damaged: %s\n", entry.value("file", "").c_str(),
                  entry.value("error", "").c_str());
      continue;
    }
    std::printf("%s  %s%s%s  %zu files  %zu workers  %s\n",
                entry.value("name", entry.value("service_id", "")).c_str(),
                entry.value("synthetic", false)      ? "synthetic"
                : entry.value("warm_suspect", false) ? "warm-suspect"
                : entry.value("complete", false)     ? "complete"
                                                     : "partial",
                entry.value("overflow", false) ? ", table full" : "",
                entry.value("rerecord", false) ? ", to be recorded anew" : "",
                entry.value("files", size_t{0}), entry.value("workers", size_t{0}),
                HumanBytes(entry.value("bytes", uint64_t{0})).c_str());
  }
  return kExitOk;
}

int TemplateShow(const Args& args) { return PrintTemplate(args, /*with_extents=*/false); }

int TemplateDump(const Args& args) { return PrintTemplate(args, /*with_extents=*/true); }

}  // namespace ppc::ctl
