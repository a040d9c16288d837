// SPDX-License-Identifier: Apache-2.0
#include "tools/ppcctl/artifact/run_artifacts.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <system_error>
#include <thread>

#include "daemon/wire/service_id.h"
#include "tools/ppcctl/artifact/options.h"
#include "tools/ppcctl/artifact/restore.h"
#include "tools/ppcctl/model_service.h"
#include "tools/ppcctl/output.h"
#include "tools/ppcctl/text.h"

namespace ppc::ctl {
namespace {

constexpr std::chrono::seconds kEnd(30);
constexpr std::chrono::seconds kAfterStop(2);
constexpr int kNice = 10;
// <linux/ioprio.h>, some versions of which are not C++: the last of the best-effort ones.
constexpr int kIoWhoProcess = 1;
constexpr int kIoPriority = (2 << 13) | 7;

void WarnOf(const std::string& message) { Complain("warning: artifacts: " + message); }

// This thread's: the engine has begun to serve.
void StepBack() {
  const auto self = static_cast<id_t>(syscall(SYS_gettid));
  setpriority(PRIO_PROCESS, self, kNice);
  syscall(SYS_ioprio_set, kIoWhoProcess, 0, kIoPriority);
}

}  // namespace

Result<std::string> ArtifactServiceId(const Json& spec, const Target& target,
                                      const std::vector<std::string>& command,
                                      const std::vector<std::string>& words) {
  if (spec.contains("service_id")) {
    const auto id = spec["service_id"].get<std::string>();
    if (Status status = control::CheckServiceId(id); !status) return status.error();
    return id;
  }
  Json params{{"command", command}};
  if (spec.contains("params")) {
    params = spec["params"];
  } else if (!target.directory.empty() && target.is_in_words) {
    params = ServiceParams(target.model, words);
  }
  const Result<control::ServiceName> name = control::MakeServiceName(params);
  if (!name) return name.error();
  return name->id;
}

std::shared_ptr<RunArtifacts> RunArtifacts::Begin(const Args& args, const std::string& service_id) {
  Result<artifact::Key> key = ArtifactKey(args, args.command);
  Result<std::vector<artifact::Root>> roots = ArtifactRoots(args);
  const Result<uint64_t> limit = ParseSize(kArtifactLimit);
  if (!key || !roots || !limit) {
    WarnOf(!key ? key.error().message : !roots ? roots.error().message : limit.error().message);
    return nullptr;
  }
  artifact::CaptureRequest request;
  request.service_id = service_id;
  request.key = *std::move(key);
  request.roots = *std::move(roots);
  request.max_bytes = *limit;
  std::shared_ptr<RunArtifacts> artifacts(
      new RunArtifacts(ArtifactPlace(args), std::move(request)));
  artifacts->request_.stop = artifacts->stop_.get_token();
  artifacts->Restore();
  return artifacts;
}

void RunArtifacts::Restore() const {
  using artifact::Store;
  const Result<Store> store = Store::Open(place_, Store::Use::kRead);
  if (!store) {
    // The first start.
    if (store.error().code != ENOENT) WarnOf(store.error().message);
    return;
  }
  const Result<artifact::Match> match =
      artifact::FindBundle(*store, request_.service_id, request_.key);
  if (!match) return WarnOf(match.error().message);
  if (!match->manifest) {
    if (!match->differences.empty()) {
      WarnOf("nothing is restored, they are for another key: " + TextOf(match->differences));
    }
    return;
  }
  const Result<artifact::Restored> restored =
      artifact::Restore(*store, *match->manifest, request_.roots);
  if (!restored) return WarnOf(restored.error().message);
  if (restored->files == 0) return;
  Complain("artifacts: " + std::to_string(restored->files) + " files restored, " +
           HumanBytes(restored->bytes));
}

void RunArtifacts::Ready() { Start(/*is_beside_command=*/true); }

void RunArtifacts::End(bool has_succeeded) {
  if (has_succeeded) Start(/*is_beside_command=*/false);
  const std::lock_guard lock(mutex_);
  if (!capture_.valid() || capture_.wait_for(kEnd) == std::future_status::ready) return;
  stop_.request_stop();
  // What hangs in a disk ends with us; a capture may be cut off anywhere.
  if (capture_.wait_for(kAfterStop) != std::future_status::ready) {
    WarnOf("the store does not answer; not captured");
  }
}

void RunArtifacts::Start(bool is_beside_command) {
  const std::lock_guard lock(mutex_);
  if (capture_.valid()) return;
  std::packaged_task<void()> task([self = shared_from_this(), is_beside_command] {
    if (is_beside_command) StepBack();
    self->Capture();
  });
  capture_ = task.get_future();
  try {
    std::thread(std::move(task)).detach();
  } catch (const std::system_error& e) {
    WarnOf(std::string("not captured: ") + e.what());
  }
}

void RunArtifacts::Capture() const {
  using artifact::Store;
  Result<Store> store = Store::Open(place_, Store::Use::kWrite);
  if (!store) return WarnOf(store.error().message);
  const Result<artifact::Captured> captured = artifact::Capture(*store, request_);
  if (!captured) return WarnOf("not captured: " + captured.error().message);
  if (captured->is_unchanged) return;
  if (captured->left_out.count > 0) {
    WarnOf(std::to_string(captured->left_out.count) +
           " left out, the first: " + captured->left_out.first);
  }
  Complain("artifacts: " + std::to_string(captured->files) + " files captured, " +
           HumanBytes(captured->bytes));
}

}  // namespace ppc::ctl
