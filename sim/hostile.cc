// SPDX-License-Identifier: Apache-2.0
// A policy that harms, to show what the runtime lets it do.  Config: {"way": "drops" | "loads" |
// "unread" | "waited" | "random" | "silent", "seed": N, "progress": true}.
//   drops   drops all files that were missed, mapped pages too, five times a second
//   loads   loads all files of the mount over and over, the last ones first
//   unread  loads files that no reader has missed over and over, and drops them to make room
//   waited  at each miss loads 8 MiB as if a reader waited: the kernel drops other pages for them
//   random  loads and drops ranges of known files at random
//   silent  manages read-ahead and returns no list
// With "progress" it asks for readers' hits; only for such policies does the observer unmap pages.
// Threads: as in ppc.h.
#include <random>
#include <set>
#include <string>
#include <vector>

#include "daemon/base/config_reader.h"
#include "ppc.hpp"

namespace {

struct Known {
  uint64_t file = 0;
  uint64_t size = 0;
};

class Hostile : public ppc::Policy {
 public:
  int Init() override {
    const ppc::Result<ppc::Json> json =
        ppc::ParseJsonObject(context()->config, "the configuration");
    if (!json) return -1;
    way_ = json->value("way", "random");
    random_.seed(json->value("seed", uint64_t{1}));
    const bool drops = way_ == "drops" || way_ == "unread" || way_ == "random";
    const uint32_t evicts = drops ? PPC_WANT_EVICT : 0;
    const uint32_t hits = json->value("progress", false) ? PPC_WANT_PROGRESS : 0;
    return context()->want(context(), PPC_WANT_MANAGED_RA | evicts | hits, 0);
  }

  prefetch_ios* Prefetch(const miss_io& miss) override {
    Learn(miss.path);
    if (miss.service > 0) service_ = static_cast<uint32_t>(miss.service);
    if (way_ == "unread")
      std::erase_if(files_, [&](const Known& known) { return known.file == miss.file; });
    if (way_ != "waited" || files_.empty()) return nullptr;
    list_.Clear();
    AddNext().flags = PPC_IO_WAITED;
    return list_.Prefetch();
  }

  prefetch_ios* Plan(const ppc_plan_request& request) override {
    list_.Clear();
    if (files_.empty() || way_ == "drops" || way_ == "waited" || way_ == "silent") return nullptr;
    for (uint64_t asked = 0; asked < request.max_bytes; asked += kStep) {
      if (way_ == "random") {
        AddRandom();
        continue;
      }
      AddNext();
    }
    return list_.Prefetch();
  }

  evict_ios* Evict(const miss_io*) override {
    list_.Clear();
    if (files_.empty() || way_ == "loads" || way_ == "waited" || way_ == "silent") return nullptr;
    if (way_ == "drops" || way_ == "unread") {
      for (const Known& known : files_) Add(known, 0, known.size).flags = PPC_IO_UNMAP;
    } else {
      AddRandom().flags = PPC_IO_UNMAP;
    }
    return list_.Evict();
  }

 private:
  static constexpr uint64_t kStep = 8 << 20;
  static constexpr uint64_t kSteps = 64;  // per file, before the next file's turn

  ppc_io& Add(const Known& known, uint64_t offset, uint64_t size) {
    ppc_io& io = list_.Add(known.file, offset, size);
    io.service = service_;
    return io;
  }

  ppc_io& AddNext() {
    const Known& known = files_[files_.size() - 1 - next_ / kSteps % files_.size()];
    return Add(known, next_++ % kSteps * kStep % std::max(known.size, kStep), kStep);
  }

  ppc_io& AddRandom() {
    const Known& known = files_[random_() % files_.size()];
    return Add(known, random_() % (known.size / kStep + 1) * kStep, kStep);
  }

  // Learns the missed file and all others of its directory.
  void Learn(const char* path) {
    if (path == nullptr) return;
    const std::string text = path;
    const size_t slash = text.rfind('/');
    const std::string directory = slash == std::string::npos ? "" : text.substr(0, slash);
    if (!directories_.insert(directory).second) return;
    std::vector<std::string> names;
    const auto add = [](void* arg, const char* name, char kind) {
      if (kind == 'f') static_cast<std::vector<std::string>*>(arg)->push_back(name);
      return 0;
    };
    if (context()->list_dir(context(), directory.c_str(), add, &names) != 0) return;
    for (const std::string& name : names) {
      ppc_file_info info = {};
      const std::string full = directory.empty() ? name : directory + "/" + name;
      if (context()->file_info(context(), full.c_str(), &info) == 0 && info.size > 0)
        files_.push_back({info.file, info.size});
    }
  }

  std::string way_;
  std::mt19937_64 random_;
  std::set<std::string> directories_;
  std::vector<Known> files_;
  uint64_t next_ = 0;
  uint32_t service_ = 0;  // service of the last miss: charged for all loads and drops
  ppc::IoList list_;
};

}  // namespace

PPC_POLICY(Hostile)
