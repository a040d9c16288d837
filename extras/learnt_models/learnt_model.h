// SPDX-License-Identifier: Apache-2.0
// Owns what is remembered of a command whose words name no model: which one it read the last time.
// A small file per command beside the templates.
// Threads: one at a time.
#ifndef PPC_EXTRAS_LEARNT_MODELS_LEARNT_MODEL_H_
#define PPC_EXTRAS_LEARNT_MODELS_LEARNT_MODEL_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/base/result.h"
#include "extras/learnt_models/open_models.h"
#include "tools/ppcctl/model_find.h"

namespace ppc::ctl {

// The model with the most bytes among the files that a command opened.
struct OpenedModel {
  FoundModel model;
  uint64_t bytes = 0;
  size_t files = 0;

  bool operator==(const OpenedModel&) const = default;
};
std::optional<OpenedModel> LargestModel(const FileSizes& files);

class LearntModel {
 public:
  // `store`: TemplateDir(), "" = nothing is remembered.  The same words in another working
  // directory are another command.
  LearntModel(const std::string& store, const std::vector<std::string>& command);

  // What was learnt, if it is still there.
  std::optional<FoundModel> Load() const;
  Status Save(const OpenedModel& opened) const;

 private:
  std::string FileOf() const;

  const std::string directory_;
  const std::vector<std::string> command_;
  const std::string working_directory_;
};

}  // namespace ppc::ctl

#endif  // PPC_EXTRAS_LEARNT_MODELS_LEARNT_MODEL_H_
