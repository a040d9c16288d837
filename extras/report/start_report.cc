// SPDX-License-Identifier: Apache-2.0
#include "extras/report/start_report.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <utility>

#include "daemon/base/files.h"
#include "daemon/base/unique_fd.h"
#include "extras/report/parts.h"
#include "extras/watch/service_view.h"
#include "tools/ppcctl/daemon_link.h"

namespace ppc::ctl {
namespace {

// A ppcd that does not answer in time is asked again at the next look.
constexpr unsigned kAskTimeoutMs = 1000;

// Drawing takes a second; the command's caller waits no longer than this for the page.
constexpr int kMostDrawingMs = 30000;
constexpr const char* kDrawing =
    "import sys; sys.path.insert(0, sys.argv[1]); from report import start; start.main()";

// The directory of the renderer's package: beside the running program, or the installed one.
std::string RendererDir() {
  const std::string own = LinkTarget("/proc/self/exe");
  const std::string beside = own.substr(0, own.rfind('/')) + "/../share/ppc";
  return access((beside + "/report").c_str(), F_OK) == 0 ? beside : PPC_DATA_DIR;
}

// Reads a memory file from its beginning.
Result<std::string> ContentOf(const UniqueFd& fd) {
  return ReadFile("/proc/self/fd/" + std::to_string(fd.Get()), INT_MAX);
}

class SpawnActions {
 public:
  SpawnActions() { posix_spawn_file_actions_init(&actions_); }
  ~SpawnActions() { posix_spawn_file_actions_destroy(&actions_); }
  SpawnActions(const SpawnActions&) = delete;
  SpawnActions& operator=(const SpawnActions&) = delete;
  void Use(const UniqueFd& fd, int as) {
    posix_spawn_file_actions_adddup2(&actions_, fd.Get(), as);
  }
  const posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_{};
};

// Whether it exited with 0 in time; the process is gone in either case.
bool EndsWell(pid_t pid) {
  const UniqueFd process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  pollfd waiting{process.Get(), POLLIN, 0};
  if (process.IsValid() && poll(&waiting, 1, kMostDrawingMs) == 0) kill(pid, SIGKILL);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) return false;
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// The last line of its error output.
std::string LastComplaint(const UniqueFd& errors) {
  const Result<std::string> text = ContentOf(errors);
  const std::string all = text ? Trim(*text) : "";
  return all.empty() ? "it said nothing" : all.substr(all.rfind('\n') + 1);
}

}  // namespace

// Keeps its connection; used by the sampler's thread only.
class StartReport::Asker {
 public:
  Asker(std::string socket, std::string mount, std::string id)
      : socket_(std::move(socket)), mount_(std::move(mount)), id_(std::move(id)) {}

  bool Ask(Progress* progress) {
    if (!link_) link_ = std::make_unique<DaemonLink>(kAskTimeoutMs, socket_);
    const Result<View> view = LookAtServices(*link_, mount_, /*ask_policies=*/true);
    if (!view) {
      link_.reset();
      return false;
    }
    const auto directory = view->find(mount_);
    if (directory == view->end()) return false;
    const auto service = directory->second.services.find(id_);
    if (service == directory->second.services.end()) return false;
    progress->bytes = std::max(service->second.consumed, service->second.recorded);
    progress->total = service->second.total;
    progress->missed = directory->second.miss_bytes;
    progress->disk_rate = directory->second.device_rate;
    progress->is_ready = service->second.state == "ready";
    const std::string& mode = service->second.mode;
    progress->is_counted = mode != "starting";
    if (mode == "record" || mode == "use") mode_ = mode;
    // Records what it withheld during the load, even if it is open again at the end.
    if (!service->second.guard.empty()) guard_ = service->second.guard;
    if (!service->second.phases.empty()) phases_ = service->second.phases;
    return true;
  }

  // After the last Ask().
  const std::vector<std::pair<std::string, uint64_t>>& phases() const { return phases_; }
  const std::string& mode() const { return mode_; }
  const std::string& guard() const { return guard_; }

 private:
  const std::string socket_;
  const std::string mount_;
  const std::string id_;
  std::unique_ptr<DaemonLink> link_;
  std::vector<std::pair<std::string, uint64_t>> phases_;
  std::string mode_;
  std::string guard_;
};

StartReport::StartReport(std::string socket, std::string mount, std::string id, std::string command)
    : mount_(std::move(mount)),
      id_(std::move(id)),
      command_(std::move(command)),
      asker_(std::make_unique<Asker>(std::move(socket), mount_, id_)) {}

StartReport::~StartReport() = default;

void StartReport::Begin(pid_t pid, uint64_t begin_ns) {
  sampler_ =
      std::make_unique<Sampler>(RootsFromEnvironment(), pid, begin_ns,
                                [this](Progress* progress) { return asker_->Ask(progress); });
}

void StartReport::Wait() {
  if (sampler_) sampler_->Wait();
}

Json StartReport::End(bool has_succeeded) {
  StartLog log = sampler_ ? sampler_->Finish() : StartLog{};
  log.is_ready = log.is_ready || has_succeeded;
  const StartParts parts = PartsOf(log);
  Json report = ReportJson(log, parts, LimitOf(parts));
  report["service_id"] = id_;
  report["directory"] = mount_;
  report["command"] = command_;
  report["mode"] = asker_->mode();
  if (!asker_->guard().empty()) report["guard"] = asker_->guard();
  // By the policy's clock, which begins at the service's start message.
  report["phases"] = PhasesJson(asker_->phases());
  return report;
}

Result<std::string> ReportFor(const std::string& file, const Json& report) {
  if (file.ends_with(".html")) return ReportPage(report);
  if (file.ends_with(".md")) return ReportMarkdown(report);
  if (file.ends_with(".json")) return report.dump(1) + "\n";
  return ReportText(report);
}

Status WriteReport(const std::string& file, const Json& report) {
  const Result<std::string> text = ReportFor(file, report);
  if (!text) {
    // The samples cannot be taken again, so keep them.
    const std::string kept = file + ".json";
    if (Status written = WriteReport(kept, report); !written) return written;
    return Error{text.error().code, file + ": " + text.error().message + "; the report is in " +
                                        kept + ", which ppcctl report --from " + kept +
                                        " shows, with --out " + file + " as a page"};
  }
  const UniqueFd fd(open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!fd.IsValid()) return PosixError("--report " + file, errno);
  return WriteAll(fd.Get(), text->data(), text->size());
}

Result<std::string> ReportPage(const Json& report, const std::string& python) {
  // Files, not pipes: neither process blocks on the other.
  const UniqueFd input(memfd_create("report", MFD_CLOEXEC));
  const UniqueFd output(memfd_create("page", MFD_CLOEXEC));
  const UniqueFd errors(memfd_create("errors", MFD_CLOEXEC));
  if (!input.IsValid() || !output.IsValid() || !errors.IsValid()) {
    return PosixError("memfd_create", errno);
  }
  const std::string words = DumpJson(PageWords(report));
  if (Status written = WriteAll(input.Get(), words.data(), words.size()); !written) {
    return written.error();
  }
  lseek(input.Get(), 0, SEEK_SET);
  SpawnActions actions;
  actions.Use(input, STDIN_FILENO);
  actions.Use(output, STDOUT_FILENO);
  actions.Use(errors, STDERR_FILENO);
  std::string program = python;
  std::string isolated = "-I";
  std::string no_cache = "-B";
  std::string command = "-c";
  std::string code = kDrawing;
  std::string folder = RendererDir();
  std::array<char*, 7> argv = {program.data(), isolated.data(), no_cache.data(), command.data(),
                               code.data(),    folder.data(),   nullptr};
  pid_t pid = -1;
  const int failed = posix_spawnp(&pid, argv[0], actions.get(), nullptr, argv.data(), environ);
  if (failed == ENOENT)
    return Error{ENOENT, "a page is drawn by " + python + ", which is not here"};
  if (failed != 0) return PosixError(python, failed);
  if (!EndsWell(pid)) return Error{EIO, "the page cannot be drawn: " + LastComplaint(errors)};
  return ContentOf(output);
}

}  // namespace ppc::ctl
