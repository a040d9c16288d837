// SPDX-License-Identifier: Apache-2.0
// The service process: init, load, ready.
// Threads: one, plus one process per worker.
#include "tools/model/loadmodel/service.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <utility>

#include "daemon/base/clock.h"
#include "daemon/base/files.h"
#include "daemon/base/unique_fd.h"
#include "tools/model/common/content.h"
#include "tools/model/common/model_dir.h"

namespace ppc::bench {
namespace {

// A worker process; killed with its pipes closed when it goes out of scope unreaped.
struct Child {
  pid_t pid = -1;
  UniqueFd go;      // write end of its standard input
  UniqueFd answer;  // read end of its standard output
  std::string buffer;

  Child() = default;
  Child(Child&& other) noexcept { *this = std::move(other); }
  Child& operator=(Child&& other) noexcept {
    std::swap(pid, other.pid);
    std::swap(go, other.go);
    std::swap(answer, other.answer);
    std::swap(buffer, other.buffer);
    return *this;
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    go.Reset();
    answer.Reset();
    if (pid <= 0) return;
    ::kill(pid, SIGTERM);
    ::waitpid(pid, nullptr, 0);
  }
};

// When the kernel made this process (CLOCK_MONOTONIC, 10 ms steps): the clock of a start-up starts
// at exec, before the dynamic linker and main().
uint64_t ProcessStartNs() {
  const uint64_t now = MonotonicNs();
  const Result<std::string> stat = ReadLine("/proc/self/stat");
  if (!stat.ok()) return now;
  std::istringstream fields(stat->substr(stat->rfind(')') + 1));
  std::string field;
  for (int i = 3; i <= 22; ++i) fields >> field;
  const uint64_t ticks = std::strtoull(field.c_str(), nullptr, 10);
  const uint64_t start = ticks * (kNsPerSec / static_cast<uint64_t>(::sysconf(_SC_CLK_TCK)));
  // The field counts from boot including suspend; a value beyond now is not comparable.
  return ticks == 0 || start > now ? now : start;
}

Result<Child> StartWorker(uint32_t index, const std::vector<std::string>& args) {
  int in[2], out[2];
  if (::pipe2(in, O_CLOEXEC) != 0) return PosixError("pipe", errno);
  UniqueFd in_read(in[0]), in_write(in[1]);
  if (::pipe2(out, O_CLOEXEC) != 0) return PosixError("pipe", errno);
  UniqueFd out_read(out[0]), out_write(out[1]);
  std::vector<std::string> words{"loadmodel"};
  words.insert(words.end(), args.begin(), args.end());
  words.insert(words.end(), {"--worker", std::to_string(index)});
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const std::string number = std::to_string(index);
  const pid_t pid = ::fork();
  if (pid < 0) return PosixError("fork", errno);
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    ::dup2(in_read.Get(), STDIN_FILENO);
    ::dup2(out_write.Get(), STDOUT_FILENO);
    ::setenv("PPC_WORKER", number.c_str(), 1);
    ::setenv("LOCAL_RANK", number.c_str(), 1);
    ::execv("/proc/self/exe", argv.data());
    ::_exit(127);
  }
  Child child;
  child.pid = pid;
  child.go = std::move(in_write);
  child.answer = std::move(out_read);
  return child;
}

// The next line a worker writes.
Result<std::string> ReadAnswer(Child* child) {
  for (;;) {
    const size_t end = child->buffer.find('\n');
    if (end != std::string::npos) {
      std::string line = child->buffer.substr(0, end);
      child->buffer.erase(0, end + 1);
      return line;
    }
    char block[4096];
    const ssize_t got = ::read(child->answer.Get(), block, sizeof block);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0)
      return Error{ECHILD, "worker process " + std::to_string(child->pid) +
                               " ended without a report; see its messages above"};
    child->buffer.append(block, static_cast<size_t>(got));
  }
}

Result<Json> ReadReport(Child* child) {
  Result<std::string> line = ReadAnswer(child);
  if (!line.ok()) return line.error();
  Result<Json> report = ParseJsonObject(*line, "worker report");
  if (!report.ok()) return report.error();
  if (report->contains("error")) return Error{EIO, report->value("error", "")};
  return report;
}

void SleepSeconds(double seconds) {
  timespec left{
      static_cast<time_t>(seconds),
      static_cast<long>((seconds - static_cast<double>(static_cast<time_t>(seconds))) * 1e9)};
  while (::clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left) == EINTR) {
  }
}

double TimeSeconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

double CpuSeconds() {
  double seconds = 0;
  for (const int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage usage{};
    ::getrusage(who, &usage);
    seconds += TimeSeconds(usage.ru_utime) + TimeSeconds(usage.ru_stime);
  }
  return seconds;
}

// Init: the small first reads, the workers, then quiet.  Returns when all are waiting for "go".
Result<std::vector<Child>> Init(const LoadConfig& config, const std::vector<std::string>& args) {
  Result<ModelDir> dir = OpenModelDir(config.dir);
  if (!dir.ok()) return dir.error();
  for (const std::string& name : dir->small_files) {
    const Result<std::string> text = ReadFile(config.dir + "/" + name, size_t{64} << 20);
    if (!text.ok()) return text.error();
  }
  std::vector<Child> children;
  for (uint32_t i = 0; i < config.workers; ++i) {
    Result<Child> child = StartWorker(i, args);
    if (!child.ok()) return child.error();
    children.push_back(std::move(*child));
  }
  SleepSeconds(config.init_s);
  for (Child& child : children) {
    const Result<std::string> line = ReadAnswer(&child);
    if (!line.ok()) return line.error();
    if (*line == "ready") continue;
    const Result<Json> report = ParseJsonObject(*line, "worker");
    return Error{EIO, report.ok() ? report->value("error", *line) : *line};
  }
  return children;
}

Json Summary(const LoadConfig& config, const Json& workers) {
  uint64_t bytes = 0, majflt = 0, minflt = 0, value = 0;
  for (const Json& worker : workers) {
    bytes += worker.value("bytes", uint64_t{0});
    majflt += worker.value("majflt", uint64_t{0});
    minflt += worker.value("minflt", uint64_t{0});
    value = MixWord(value ^ std::strtoull(worker.value("checksum", "").c_str(), nullptr, 16));
  }
  char checksum[20];
  std::snprintf(checksum, sizeof checksum, "%016llx", static_cast<unsigned long long>(value));
  return Json{{"version", 1},
              {"model", config.dir},
              {"mode", config.is_mmap     ? "mmap"
                       : config.is_direct ? "direct"
                                          : "read"},
              {"tp", config.tp},
              {"device_mbps", config.device_mbps},
              {"remote_cost", config.remote_cost},
              {"file_bytes", workers[0]["file_bytes"]},
              {"tensor_bytes", workers[0]["tensor_bytes"]},
              {"tensors", workers[0]["tensors"]},
              {"bytes", bytes},
              {"majflt", majflt},
              {"minflt", minflt},
              {"checksum", checksum},
              {"workers", workers}};
}

}  // namespace

Result<Json> RunService(const LoadConfig& config, const std::vector<std::string>& args) {
  const uint64_t exec_ns = ProcessStartNs();
  ::signal(SIGPIPE, SIG_IGN);
  Result<std::vector<Child>> children = Init(config, args);
  if (!children.ok()) return children.error();
  const uint64_t load_ns = MonotonicNs();
  for (Child& child : *children)
    if (const Status sent = WriteAll(child.go.Get(), "g", 1); !sent.ok()) return sent.error();
  Json workers = Json::array();
  for (Child& child : *children) {
    Result<Json> report = ReadReport(&child);
    if (!report.ok()) return report.error();
    workers.push_back(std::move(*report));
  }
  const uint64_t ready_ns = MonotonicNs();
  for (Child& child : *children) ::waitpid(std::exchange(child.pid, -1), nullptr, 0);
  Json report = Summary(config, workers);
  report["exec_ns"] = exec_ns;
  report["load_ns"] = load_ns;
  report["ready_ns"] = ready_ns;
  report["init_s"] = static_cast<double>(load_ns - exec_ns) / 1e9;
  report["load_s"] = static_cast<double>(ready_ns - load_ns) / 1e9;
  report["startup_s"] = static_cast<double>(ready_ns - exec_ns) / 1e9;
  report["cpu_s"] = CpuSeconds();
  if (!config.ready_cmd.empty()) report["ready_cmd_status"] = std::system(config.ready_cmd.c_str());
  return report;
}

}  // namespace ppc::bench
