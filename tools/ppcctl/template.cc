// SPDX-License-Identifier: Apache-2.0
// ppcctl template list|show|dump: reads template files, asks no daemon.
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
#include "tools/ppcctl/daemon_link.h"
#include "tools/ppcctl/template_store.h"
#include "tools/ppcctl/text.h"
#include "tools/ppcctl/user_dirs.h"
#include "tools/ppcctl/verbs.h"

namespace ppc::ctl {
namespace {

constexpr const char* kSuffix = ".ppct";

int PrintTemplate(const Args& args, bool with_extents) {
  const Result<maio::Template> loaded = LoadTemplate(args, args.operands[0]);
  if (!loaded) {
    if (loaded.error().code == EINVAL) return WrongUsage(loaded.error().message);
    return Failed(loaded.error());
  }
  const Result<Json> json = ParseJson(maio::ToJson(*loaded, with_extents), "template");
  if (!json) return Failed(json.error());
  PrintJson(*json);
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

}  // namespace

std::string TemplateStoreDir(const Args& args) { return args.Get("--dir", TemplateDir()); }

Result<maio::Template> LoadTemplate(const Args& args, const std::string& given) {
  struct stat info {};
  const bool is_file = given.find('/') != std::string::npos || stat(given.c_str(), &info) == 0;
  const std::string path = is_file ? given : maio::TemplatePath(TemplateStoreDir(args), given);
  if (path.empty()) return Error{EINVAL, "'" + given + "' is neither a file nor a service ID"};
  maio::Template loaded;
  std::string error;
  const int code = maio::Load(path, &loaded, &error);
  if (code == -ENOENT)
    return Error{ENOENT, path + ": no such template; `ppcctl template list` shows what there is"};
  if (code != 0) return Error{EBADMSG, error};
  return loaded;
}

int TemplateList(const Args& args) {
  const std::string store = TemplateStoreDir(args);
  std::error_code error;
  const std::vector<std::string> files = FilesOf(store, error);
  if (error && error != std::errc::no_such_file_or_directory) {
    Complain(store + ": " + error.message());
    return kExitFailed;
  }
  Json list = Json::array();
  for (const std::string& file : files) {
    maio::Template loaded;
    std::string problem;
    Json entry{{"file", file}};
    if (maio::Load(file, &loaded, &problem) == 0) {
      entry["service_id"] = loaded.service_id;
      entry["complete"] = (loaded.flags & maio::kComplete) != 0;
      entry["synthetic"] = (loaded.flags & maio::kSynthetic) != 0;
      entry["warm_suspect"] = (loaded.flags & maio::kWarmSuspect) != 0;
      entry["overflow"] = (loaded.flags & maio::kOverflow) != 0;
      entry["rerecord"] = (loaded.flags & maio::kRerecord) != 0;
      entry["files"] = loaded.files.size();
      entry["groups"] = loaded.groups.size();
      entry["bytes"] = maio::DistinctBytes(loaded);
    } else {
      entry["error"] = problem;
    }
    list.push_back(std::move(entry));
  }
  if (WantsJson()) {
    PrintJson({{"store", store}, {"templates", list}});
    return kExitOk;
  }
  for (const Json& entry : list) {
    if (entry.contains("error")) {
      std::printf("%s  damaged: %s\n", entry.value("file", "").c_str(),
                  entry.value("error", "").c_str());
      continue;
    }
    std::printf("%s  %s%s%s  %zu files  %zu workers  %s\n", entry.value("service_id", "").c_str(),
                entry.value("synthetic", false)      ? "synthetic"
                : entry.value("warm_suspect", false) ? "warm-suspect"
                : entry.value("complete", false)     ? "complete"
                                                     : "partial",
                entry.value("overflow", false) ? ", table full" : "",
                entry.value("rerecord", false) ? ", to be recorded anew" : "",
                entry.value("files", size_t{0}), entry.value("groups", size_t{0}),
                HumanBytes(entry.value("bytes", uint64_t{0})).c_str());
  }
  return kExitOk;
}

int TemplateShow(const Args& args) { return PrintTemplate(args, /*with_extents=*/false); }

int TemplateDump(const Args& args) { return PrintTemplate(args, /*with_extents=*/true); }

}  // namespace ppc::ctl
