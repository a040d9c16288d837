// SPDX-License-Identifier: Apache-2.0
// Owns the artifacts of one `ppcctl run`: restored before its command starts, captured once it is
// ready.  Whatever goes wrong is one warning.
#ifndef PPC_TOOLS_PPCCTL_ARTIFACT_RUN_ARTIFACTS_H_
#define PPC_TOOLS_PPCCTL_ARTIFACT_RUN_ARTIFACTS_H_

#include <future>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "daemon/base/json.h"
#include "tools/ppcctl/args.h"
#include "tools/ppcctl/artifact/capture.h"
#include "tools/ppcctl/artifact/store.h"
#include "tools/ppcctl/run_target.h"

namespace ppc::ctl {

// What `run` captures under: the service's ID where arguments or the command's words give one, else
// one of the command itself, so that its first start and its next have the same.
Result<std::string> ArtifactServiceId(const Json& spec, const Target& target,
                                      const std::vector<std::string>& command,
                                      const std::vector<std::string>& words);

class RunArtifacts : public std::enable_shared_from_this<RunArtifacts> {
 public:
  // Restores what there is.  nullptr: nothing is to be captured either; why has been said.
  static std::shared_ptr<RunArtifacts> Begin(const Args& args, const std::string& service_id);

  // By any thread, the first time counts.  Does not wait.
  void Ready();

  // The command has ended.  Waits for what is being captured, for a limited time.
  void End(bool has_succeeded);

 private:
  RunArtifacts(artifact::Store::Place place, artifact::CaptureRequest request)
      : place_(std::move(place)), request_(std::move(request)) {}
  void Restore() const;
  void Start(bool is_beside_command);
  void Capture() const;

  const artifact::Store::Place place_;
  artifact::CaptureRequest request_;
  std::stop_source stop_;
  std::mutex mutex_;
  std::future<void> capture_;  // not valid = none so far
};

}  // namespace ppc::ctl

#endif  // PPC_TOOLS_PPCCTL_ARTIFACT_RUN_ARTIFACTS_H_
