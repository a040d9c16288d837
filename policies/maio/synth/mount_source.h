// SPDX-License-Identifier: Apache-2.0
//
// Owns the way of headers and names from the mount, through the runtime.
// Threads: any; what waits for a store waits here.
#ifndef POLICIES_MAIO_SYNTH_MOUNT_SOURCE_H_
#define POLICIES_MAIO_SYNTH_MOUNT_SOURCE_H_

#include <cerrno>
#include <string>
#include <vector>

#include "policies/maio/base/tuning.h"
#include "policies/maio/synth/synth.h"
#include "ppc.h"

namespace ppc::maio {

// The mount through the runtime, for a limited time.
class MountSource : public ModelSource {
 public:
  explicit MountSource(const ppc_context* context)
      : context_(context), deadline_(context->now_ns(context) + kHeadersBudgetNs) {}

  int Stat(const std::string& path, Info* out) override {
    if (!ValidPath(path)) return -EINVAL;
    ppc_file_info info = {};
    if (int rc = context_->file_info(context_, path.c_str(), &info); rc != 0) return rc;
    *out = {path, info.size, info.mtime_ns, info.file};
    return 0;
  }
  int64_t Read(const std::string& path, uint64_t offset, void* out, size_t bytes) override {
    if (context_->now_ns(context_) > deadline_) return -ETIMEDOUT;
    return context_->read(context_, path.c_str(), offset, out, bytes);
  }
  int List(const std::string& path, std::vector<std::string>* names) override {
    names->clear();
    auto add = [](void* arg, const char* name, char kind) {
      auto* list = static_cast<std::vector<std::string>*>(arg);
      if (kind != '?') list->emplace_back(name);
      return list->size() < kMaxFiles ? 0 : 1;
    };
    return context_->list_dir(context_, path.c_str(), add, names);
  }

 private:
  const ppc_context* context_;
  uint64_t deadline_;
};

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_SYNTH_MOUNT_SOURCE_H_
