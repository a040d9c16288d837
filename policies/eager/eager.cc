// SPDX-License-Identifier: Apache-2.0
//
// EagerLoad: the baseline of the paper's section 5.  At the first miss the
// whole model is queued as one list; nothing is ever evicted.
//
// Config: {"dir": "path in the mount"} or {"files": ["path", ...]}; default is
// the directory of the first missed file, files in the order of their names.
// Threads: as in ppc.h.
#include <algorithm>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "daemon/base/config_reader.h"
#include "ppc.hpp"

namespace {

class Eager : public ppc::Policy {
 public:
  int Init() override {
    if (const ppc::Status status = ReadConfig(context()->config); !status) {
      Log(PPC_LOG_ERROR, "eager: " + status.error().message);
      return -1;
    }
    return context()->want(context(), PPC_WANT_MANAGED_RA, 0);
  }

  // Each directory is queued once: a second model on the same mount is a new first miss.
  prefetch_ios* Prefetch(const miss_io& miss) override {
    list_.Clear();
    std::string dir = Directory(miss.path);
    if (!done_.insert(dir).second) return nullptr;
    std::vector<std::string> files = files_.empty() ? ListFiles(dir) : files_;
    uint64_t total = 0;
    for (const std::string& path : files) {
      ppc_file_info info = {};
      int rc = context()->file_info(context(), path.c_str(), &info);
      if (rc != 0) {
        Log(PPC_LOG_WARNING, "eager: skip " + path + ": " + std::strerror(-rc));
        continue;
      }
      if (info.size == 0) continue;
      list_.Add(info.file, 0, info.size);
      total += info.size;
    }
    context()->stat(context(), "queued_files", list_.size());
    context()->stat(context(), "queued_bytes", total);
    return list_.Prefetch();
  }

 private:
  ppc::Status ReadConfig(const char* text) {
    const ppc::Result<ppc::Json> json = ppc::ParseJsonObject(text, "the configuration");
    if (!json) return json.error();
    ppc::ConfigReader reader(*json, "option");
    has_dir_ = reader.Find("dir") != nullptr;
    reader.Text("dir", &dir_);
    if (const ppc::Json* files = reader.Find("files"); files != nullptr) {
      const bool is_list = files->is_array() && std::ranges::all_of(*files, [](const auto& file) {
                             return file.is_string();
                           });
      if (is_list) files_ = files->get<std::vector<std::string>>();
      if (!is_list) reader.Refuse("files", "an array of paths");
    }
    (void)reader.Find("runtime");
    return reader.Finish();
  }

  std::string Directory(const char* missed) const {
    if (!files_.empty()) return "";
    if (has_dir_) return dir_;
    const char* slash = missed != nullptr ? std::strrchr(missed, '/') : nullptr;
    return slash != nullptr ? std::string(missed, slash) : "";
  }

  std::vector<std::string> ListFiles(const std::string& dir) const {
    std::vector<std::string> names;
    auto add = [](void* arg, const char* name, char kind) {
      if (kind == 'f') static_cast<std::vector<std::string>*>(arg)->push_back(name);
      return 0;
    };
    if (context()->list_dir == nullptr) return names;
    int rc = context()->list_dir(context(), dir.c_str(), add, &names);
    if (rc != 0) {
      Log(PPC_LOG_ERROR, "eager: cannot list \"" + dir + "\": " + std::strerror(-rc));
      return {};
    }
    std::sort(names.begin(), names.end());
    if (!dir.empty()) {
      for (std::string& name : names) name = dir + "/" + name;
    }
    return names;
  }

  std::string dir_;
  bool has_dir_ = false;
  std::vector<std::string> files_;
  std::set<std::string> done_;
  ppc::IoList list_;
};

}  // namespace

PPC_POLICY(Eager)
