// SPDX-License-Identifier: Apache-2.0
// Owns the artifacts of one `ppcctl run`: restores them before the command starts, and captures
// them once it is ready, each in a process of its own, so that a hanging store delays neither the
// command nor our end.  Any failure is one warning.
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
  // Restores existing artifacts, for a limited time.  nullptr: nothing is to be captured either;
  // the reason was printed.
  static std::shared_ptr<RunArtifacts> Begin(const Args& args, const std::string& service_id);
  ~RunArtifacts() override;
  RunArtifacts(const RunArtifacts&) = delete;
  RunArtifacts& operator=(const RunArtifacts&) = delete;

  // On any thread; the first call counts.  Does not wait.
  void Ready() override;

  // After the command's end: waits for a running capture, for a limited time.
  void ServiceStopped(const Result<int>& status) override;

 private:
  RunArtifacts(artifact::Store::Place place, artifact::CaptureRequest request)
      : place_(std::move(place)), request_(std::move(request)) {}
  using Lines = std::vector<std::string>;
  bool Restore() const;  // false: the store does not answer
  void Start(bool is_beside_command);
  // In the helper processes; returns messages.
  Lines RestoreNow() const;
  Lines CaptureNow() const;

  const artifact::Store::Place place_;
  const artifact::CaptureRequest request_;
  std::mutex mutex_;
  bool has_ended_ = false;
  std::optional<artifact::HelperProcess> capture_;  // empty before the capture
  std::future<void> told_;
  std::thread teller_;
};

}  // namespace ppc::ctl

#endif  // PPC_EXTRAS_ARTIFACT_RUN_ARTIFACTS_H_
