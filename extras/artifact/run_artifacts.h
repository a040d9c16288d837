// SPDX-License-Identifier: Apache-2.0
// Owns the artifacts of one `ppcctl run`: restored before its command starts, captured once it is
// ready, each by a process of its own: neither the command nor our end waits for a store that does
// not answer.  Whatever goes wrong is one warning.
#ifndef PPC_EXTRAS_ARTIFACT_RUN_ARTIFACTS_H_
#define PPC_EXTRAS_ARTIFACT_RUN_ARTIFACTS_H_

#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "daemon/base/json.h"
#include "extras/artifact/capture.h"
#include "extras/artifact/helper_process.h"
#include "extras/artifact/store.h"
#include "tools/ppcctl/args.h"
#include "tools/ppcctl/extra.h"

namespace ppc::ctl {

class RunArtifacts : public RunPart {
 public:
  // Restores what there is, for a limited time.  nullptr: nothing is to be captured either; why
  // has been said.
  static std::shared_ptr<RunArtifacts> Begin(const Args& args, const std::string& service_id);
  ~RunArtifacts() override;
  RunArtifacts(const RunArtifacts&) = delete;
  RunArtifacts& operator=(const RunArtifacts&) = delete;

  // By any thread, the first time counts.  Does not wait.
  void Ready() override;

  // The command has ended.  Waits for what is being captured, for a limited time.
  void ServiceStopped(const Result<int>& status) override;

 private:
  RunArtifacts(artifact::Store::Place place, artifact::CaptureRequest request)
      : place_(std::move(place)), request_(std::move(request)) {}
  using Lines = std::vector<std::string>;
  bool Restore() const;  // false: the store does not answer
  void Start(bool is_beside_command);
  // In the helper processes; return what is to be told.
  Lines RestoreNow() const;
  Lines CaptureNow() const;

  const artifact::Store::Place place_;
  const artifact::CaptureRequest request_;
  std::mutex mutex_;
  bool has_ended_ = false;
  std::optional<artifact::HelperProcess> capture_;  // none so far
  std::future<void> told_;
  std::thread teller_;
};

}  // namespace ppc::ctl

#endif  // PPC_EXTRAS_ARTIFACT_RUN_ARTIFACTS_H_
