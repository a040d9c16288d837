// SPDX-License-Identifier: Apache-2.0
#include "extras/artifact/run_artifacts.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <system_error>
#include <thread>

#include "extras/artifact/options.h"
#include "extras/artifact/restore.h"
#include "tools/ppcctl/output.h"
#include "tools/ppcctl/text.h"

namespace ppc::ctl {

using artifact::HelperProcess;

namespace {

// The command waits for a restore; at the end the shell waits for a capture.
constexpr int kRestoreMs = 60'000;
constexpr std::chrono::seconds kEnd(30);
// Longest wait for a removal.
constexpr int kLockPatienceMs = 2000;
constexpr int kNice = 10;
// <linux/ioprio.h>, some versions of which are not C++: the lowest best-effort priority.
constexpr int kIoWhoProcess = 1;
constexpr int kIoPriority = (2 << 13) | 7;

constexpr const char* kWarning = "warning: artifacts: ";

void WarnOf(const std::string& message) { Complain(kWarning + message); }

// Lowers this process's priority: the engine serves already.
void LowerPriority() {
  setpriority(PRIO_PROCESS, 0, kNice);
  syscall(SYS_ioprio_set, kIoWhoProcess, 0, kIoPriority);
}

}  // namespace

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
  if (!artifacts->Restore()) return nullptr;
  return artifacts;
}

RunArtifacts::~RunArtifacts() {
  if (!teller_.joinable()) return;
  capture_->GiveUp();
  teller_.join();
}

bool RunArtifacts::Restore() const {
  Result<HelperProcess> helper = HelperProcess::Start([this] { return RestoreNow(); });
  if (!helper) {
    WarnOf("not restored: " + helper.error().message);
    return true;
  }
  const Result<Lines> told = helper->Wait(kRestoreMs);
  if (told) {
    for (const std::string& line : *told) Complain(line);
    return true;
  }
  WarnOf(told.error().code == ETIMEDOUT
             ? "not restored within " + std::to_string(kRestoreMs / 1000) +
                   " s; none are captured either; ppcctl artifact verify shows how the store reads"
             : "not restored: its process was killed");
  return told.error().code != ETIMEDOUT;
}

RunArtifacts::Lines RunArtifacts::RestoreNow() const {
  using artifact::Store;
  const Result<Store> store = Store::Open(place_, Store::Use::kRead, kLockPatienceMs);
  if (!store) {
    // First start: no store yet.
    if (store.error().code == ENOENT) return {};
    return {kWarning + store.error().message};
  }
  const Result<artifact::Match> match =
      artifact::FindBundle(*store, request_.service_id, request_.key);
  if (!match) return {kWarning + match.error().message};
  if (!match->manifest) {
    if (match->differences.empty()) return {};
    return {kWarning +
            ("nothing is restored, they are for another key: " + TextOf(match->differences))};
  }
  const Result<artifact::Restored> restored =
      artifact::Restore(*store, *match->manifest, request_.roots);
  if (!restored) return {kWarning + restored.error().message};
  if (restored->files == 0) return {};
  return {"artifacts: " + std::to_string(restored->files) + " files restored, " +
          HumanBytes(restored->bytes)};
}

void RunArtifacts::Ready() { Start(/*is_beside_command=*/true); }

void RunArtifacts::ServiceStopped(const Result<int>& status) {
  if (status && *status == 0) Start(/*is_beside_command=*/false);
  const std::lock_guard lock(mutex_);
  has_ended_ = true;
  if (!teller_.joinable()) return;
  if (told_.wait_for(kEnd) != std::future_status::ready) capture_->GiveUp();
  teller_.join();
}

void RunArtifacts::Start(bool is_beside_command) {
  const std::lock_guard lock(mutex_);
  if (has_ended_ || capture_) return;
  Result<HelperProcess> helper = HelperProcess::Start([this, is_beside_command] {
    if (is_beside_command) LowerPriority();
    return CaptureNow();
  });
  if (!helper) return WarnOf("not captured: " + helper.error().message);
  capture_.emplace(*std::move(helper));
  std::packaged_task<void()> task([capture = &*capture_] {
    const Result<Lines> told = capture->Wait(/*limit_ms=*/-1);
    if (!told) return WarnOf("not captured in time; the next start captures them");
    for (const std::string& line : *told) Complain(line);
  });
  told_ = task.get_future();
  try {
    teller_ = std::thread(std::move(task));
  } catch (const std::system_error& e) {
    capture_->GiveUp();
    WarnOf(std::string("not captured: ") + e.what());
  }
}

RunArtifacts::Lines RunArtifacts::CaptureNow() const {
  using artifact::Store;
  Result<Store> store = Store::Open(place_, Store::Use::kWrite, kLockPatienceMs);
  if (!store) return {kWarning + store.error().message};
  const Result<artifact::Captured> captured = artifact::Capture(*store, request_);
  if (!captured) return {kWarning + ("not captured: " + captured.error().message)};
  if (captured->is_unchanged) return {};
  Lines lines;
  if (captured->left_out.count > 0) {
    lines.push_back(kWarning + std::to_string(captured->left_out.count) +
                    " left out, the first: " + captured->left_out.first);
  }
  lines.push_back("artifacts: " + std::to_string(captured->files) + " files captured, " +
                  HumanBytes(captured->bytes));
  return lines;
}

}  // namespace ppc::ctl
