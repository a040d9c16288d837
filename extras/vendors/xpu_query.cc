// SPDX-License-Identifier: Apache-2.0
#include "extras/vendors/xpu_query.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "daemon/base/clock.h"
#include "daemon/base/json.h"
#include "daemon/xpu/vendor_xpus.h"

extern char** environ;

namespace ppc {
namespace {

constexpr size_t kMaxAnswer = 1 << 20;
constexpr int kDeathMs = 1000;  // how long a killed process may take to die

XpuListing Problem(std::string text) {
  XpuListing listing;
  listing.problem = std::move(text);
  return listing;
}

class SpawnSettings {
 public:
  explicit SpawnSettings(int answer_fd) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawnattr_init(&attributes_);
    posix_spawn_file_actions_adddup2(&actions_, answer_fd, kAnswerFd);
    // Discards what a library prints.
    posix_spawn_file_actions_addopen(&actions_, 0, "/dev/null", O_RDWR, 0);
    posix_spawn_file_actions_adddup2(&actions_, 0, 1);
    posix_spawn_file_actions_adddup2(&actions_, 0, 2);
    sigset_t none;
    sigemptyset(&none);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK);
  }
  ~SpawnSettings() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;

  const posix_spawn_file_actions_t* actions() const { return &actions_; }
  const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
};

bool ReadUse(const Json& json, XpuUse* use) {
  if (!json.is_object()) return false;
  const Result<std::string> bdf = JsonString(json, "bdf", "");
  const Result<std::string> uuid = JsonString(json, "uuid", "");
  const auto pids = json.find("pids");
  if (!bdf || bdf->empty() || !uuid || pids == json.end() || !pids->is_array()) return false;
  use->bdf = *bdf;
  use->uuid = *uuid;
  for (const Json& pid : *pids) {
    if (!pid.is_number_integer()) return false;
    use->pids.push_back(pid.get<int>());
  }
  return true;
}

// Parses the answer, which a faulty library may have corrupted.
XpuListing ReadAnswer(const std::string& text) {
  const Result<Json> json = ParseJsonObject(text, "its answer");
  if (!json) return Problem("gave no answer that can be read");
  const Result<std::string> error = JsonString(*json, "error", "");
  if (error && !error->empty()) return Problem(*error);
  XpuListing listing;
  const Result<int64_t> silent = JsonInt(*json, "silent", 0);
  const auto devices = json->find("devices");
  bool is_good = silent && devices != json->end() && devices->is_array();
  if (is_good) {
    listing.silent = static_cast<int>(*silent);
    for (const Json& device : *devices) {
      is_good = is_good && ReadUse(device, &listing.devices.emplace_back());
    }
  }
  return is_good ? listing : Problem("gave no answer that can be read");
}

}  // namespace

XpuQuery::XpuQuery(Options options)
    : options_(std::move(options)),
      stop_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      latest_(std::make_shared<XpuListing>(Problem("was not asked yet"))) {}

XpuQuery::~XpuQuery() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  (void)eventfd_write(stop_fd_.Get(), 1);
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::shared_ptr<const XpuListing> XpuQuery::Latest() {
  const std::lock_guard lock(mutex_);
  if (!is_wanted_ && MonotonicNs() >= next_ns_) {
    try {
      if (!thread_.joinable()) thread_ = std::thread([this] { Run(); });
      is_wanted_ = true;
      wake_.notify_all();
    } catch (const std::system_error& error) {
      latest_ = std::make_shared<const XpuListing>(Problem(error.what()));
    }
  }
  return latest_;
}

void XpuQuery::Run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return is_wanted_ || is_stopping_; });
    if (is_stopping_) return;
    lock.unlock();
    auto answer = std::make_shared<const XpuListing>(Ask());
    lock.lock();
    const int pause = answer->problem.empty() ? options_.again_ms : options_.again_after_problem_ms;
    next_ns_ = MonotonicNs() + static_cast<uint64_t>(pause) * kNsPerMs;
    latest_ = std::move(answer);
    is_wanted_ = false;
  }
}

XpuListing XpuQuery::Ask() {
  if (lost_ > 0 && waitpid(lost_, nullptr, WNOHANG) == 0) {
    return Problem("hangs in its driver since an earlier question");
  }
  lost_ = -1;
  const uint64_t boot_ns = BootNs();
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return Problem(PosixError("pipe", errno).message);
  const UniqueFd ours(ends[0]);
  UniqueFd theirs(ends[1]);
  std::array<std::string, 3> words = {options_.program, kAskXpusFlag, options_.library};
  std::array<char*, 4> argv{};
  for (size_t i = 0; i < words.size(); ++i) argv[i] = words[i].data();
  pid_t pid = -1;
  int code = 0;
  {
    const SpawnSettings settings(theirs.Get());
    code =
        posix_spawn(&pid, argv[0], settings.actions(), settings.attributes(), argv.data(), environ);
  }
  theirs.Reset();
  if (code != 0) return Problem(PosixError("start " + options_.program, code).message);
  std::string text;
  int status = 0;
  const std::string problem = Await(pid, ours.Get(), &text, &status);
  if (!problem.empty()) return Problem(problem);
  if (WIFSIGNALED(status)) return Problem("ended by signal " + std::to_string(WTERMSIG(status)));
  XpuListing listing = ReadAnswer(text);
  listing.boot_ns = boot_ns;
  return listing;
}

std::string XpuQuery::Await(pid_t pid, int answer_fd, std::string* text, int* status) {
  const UniqueFd process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!process.IsValid()) {
    const Error error = PosixError("pidfd_open", errno);
    End(pid);
    return error.message;
  }
  const uint64_t end = MonotonicNs() + static_cast<uint64_t>(options_.limit_ms) * kNsPerMs;
  std::array<char, 4096> buffer{};
  for (bool is_open = true;;) {
    const uint64_t now = MonotonicNs();
    pollfd fds[] = {{is_open ? answer_fd : -1, POLLIN, 0},
                    {process.Get(), POLLIN, 0},
                    {stop_fd_.Get(), POLLIN, 0}};
    const int left = now < end ? static_cast<int>((end - now) / kNsPerMs) + 1 : 0;
    const int ready = poll(fds, std::size(fds), left);
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0 || fds[2].revents != 0) {
      End(pid);
      return "did not answer within " + std::to_string(options_.limit_ms) + " ms";
    }
    if (fds[0].revents != 0) {
      const ssize_t got = read(answer_fd, buffer.data(), buffer.size());
      if (got > 0) text->append(buffer.data(), static_cast<size_t>(got));
      is_open = got > 0;
      if (text->size() <= kMaxAnswer) continue;
      End(pid);
      return "answers without end";
    }
    if (fds[1].revents != 0) {
      waitpid(pid, status, 0);
      return "";
    }
  }
}

// A process that its driver does not let die is abandoned: waiting for it would block.
void XpuQuery::End(pid_t pid) {
  kill(pid, SIGKILL);
  const UniqueFd process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  pollfd dead{process.Get(), POLLIN, 0};
  if (process.IsValid()) (void)poll(&dead, 1, kDeathMs);
  if (waitpid(pid, nullptr, WNOHANG) == 0) lost_ = pid;
}

}  // namespace ppc
