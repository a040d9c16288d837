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
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "ppc.hpp"

namespace {

class Eager : public ppc::Policy {
 public:
  int Init() override {
    auto config = nlohmann::json::parse(context()->config, nullptr, false);
    if (!config.is_object()) return Refuse("eager: the configuration is not a JSON object");
    if (auto dir = config.find("dir"); dir != config.end()) {
      if (!dir->is_string()) return Refuse("eager: \"dir\" must be a string");
      dir_ = dir->get<std::string>();
      has_dir_ = true;
    }
    if (auto files = config.find("files"); files != config.end()) {
      if (!files->is_array()) return Refuse("eager: \"files\" must be an array of paths");
      for (const auto& file : *files) {
        if (!file.is_string()) return Refuse("eager: \"files\" must be an array of paths");
        files_.push_back(file.get<std::string>());
      }
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
  int Refuse(const char* message) {
    Log(PPC_LOG_ERROR, message);
    return -1;
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
