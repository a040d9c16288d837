// SPDX-License-Identifier: Apache-2.0
// What `ppcctl run` does for a command whose words name no model: notes which model it opens, for
// its next start.
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "extras/learnt_models/learnt_model.h"
#include "extras/learnt_models/open_models.h"
#include "tools/ppcctl/extra.h"
#include "tools/ppcctl/output.h"
#include "tools/ppcctl/text.h"
#include "tools/ppcctl/user_dirs.h"

namespace ppc::ctl {
namespace {

// Smaller files do not make a start slow.
constexpr uint64_t kBigFileBytes = 16 << 20;

class Learning : public RunPart {
 public:
  Learning(LearntModel learnt, std::string known)
      : learnt_(std::move(learnt)), known_(std::move(known)) {}

  bool AwaitsReadiness() const override { return false; }

  void Started(pid_t pid, uint64_t /*begin_ns*/) override {
    watch_ = std::make_unique<OpenModelsWatch>(
        RootsFromEnvironment(), pid, kBigFileBytes,
        [this](const FileSizes& files) { Take(LargestModel(files)); });
  }

  // Says what was learnt, in one line.
  void ServiceStopped(const Result<int>& status) override {
    watch_.reset();
    if (!status) return;
    if (!saved_) return Complain("warning: " + saved_.error().message);
    if (opened_ && opened_->model.directory == known_) return;
    if (opened_) {
      Complain("the command read the model in " + opened_->model.directory + " (" +
               HumanBytes(opened_->bytes) + "); its next start is accelerated");
    } else if (known_.empty()) {
      Complain(
          "warning: the command names no model and opened none; name its directory: "
          "ppcctl run DIR -- CMD");
    }
  }

 private:
  void Take(std::optional<OpenedModel> opened) {
    opened_ = std::move(opened);
    // At once: we may be killed with the command.
    if (opened_ && opened_->model.directory != known_) saved_ = learnt_.Save(*opened_);
  }

  const LearntModel learnt_;
  const std::string known_;  // directory, "" = none
  std::optional<OpenedModel> opened_;
  Status saved_ = Ok();
  std::unique_ptr<OpenModelsWatch> watch_;
};

std::optional<FoundModel> Remembered(const std::vector<std::string>& command) {
  return LearntModel(TemplateDir(), command).Load();
}

std::shared_ptr<RunPart> Begin(const RunStart& start, Child* /*child*/) {
  if (start.target.is_in_words) return nullptr;
  return std::make_shared<Learning>(LearntModel(TemplateDir(), start.args.command),
                                    start.target.directory);
}

}  // namespace

Extra LearnExtra() { return {.remembered = Remembered, .begin = Begin}; }

}  // namespace ppc::ctl
