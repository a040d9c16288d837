// SPDX-License-Identifier: Apache-2.0
// ppc-observer-cost: what the observer costs a reader of cached files, natively.  Each round
// measures the same reads with nothing attached, with programs that do nothing, and with the
// observer; the figures are medians of the differences within a round, so that a machine whose
// speed drifts does not decide.
// Threads: main reads and measures; one drains the events of all directories.
#include <bpf/libbpf.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "daemon/backend/observer/observer_backend.h"
#include "daemon/base/clock.h"
#include "empty.skel.h"
#include "tools/model/common/options.h"

namespace {

using namespace ppc;

constexpr char kUsage[] =
    "usage: ppc-observer-cost --dir DIR [--rounds N] [--directories N] [--slice-ms MS]\n"
    "Reads cached files of 64 MiB in DIR (made and removed; on a file system that keeps files in\n"
    "the page cache) in N rounds (default 40) of slices of MS (default 40), with up to N\n"
    "directories (default 8) observed.  Prints medians with 90% intervals, in microseconds.\n";
constexpr size_t kFileBytes = 64 << 20;
constexpr uint64_t kBeacon = 4 << 20;

struct BpfDeleter {
  void operator()(empty_bpf* skeleton) const { empty_bpf__destroy(skeleton); }
};

// The reader is another process: our own accesses are no events.
class Reader {
 public:
  explicit Reader(std::function<void()> work) : work_(std::move(work)) {
    if (pipe2(ask_, O_CLOEXEC) != 0 || pipe2(answer_, O_CLOEXEC) != 0) {
      throw std::runtime_error("pipe");
    }
    pid_ = fork();
    if (pid_ == 0) Serve();
  }
  ~Reader() {
    close(ask_[1]);
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  // Microseconds of one piece of work, the mean of `slice_ns`.
  double Measure(uint64_t slice_ns) {
    double result = 0;
    if (write(ask_[1], &slice_ns, sizeof(slice_ns)) != sizeof(slice_ns) ||
        read(answer_[0], &result, sizeof(result)) != sizeof(result)) {
      throw std::runtime_error("the reader has gone");
    }
    return result;
  }

 private:
  [[noreturn]] void Serve() {
    uint64_t slice = 0;
    while (read(ask_[0], &slice, sizeof(slice)) == sizeof(slice)) {
      (void)Loop(slice / 4);  // what attaching changed is warm again
      const double each = Loop(slice);
      if (write(answer_[1], &each, sizeof(each)) != sizeof(each)) break;
    }
    _exit(0);
  }

  double Loop(uint64_t for_ns) const {
    uint64_t count = 0;
    const uint64_t from = MonotonicNs();
    uint64_t now = from;
    for (; now - from < for_ns; now = MonotonicNs()) {
      for (int i = 0; i < 16; ++i) work_();
      count += 16;
    }
    return static_cast<double>(now - from) / 1e3 / static_cast<double>(count);
  }

  std::function<void()> work_;
  int ask_[2]{};
  int answer_[2]{};
  pid_t pid_ = 0;
};

// All observed directories, and who drains their events as a runner does.
class Observed {
 public:
  Observed(const std::string& top, size_t directories) {
    Result<std::unique_ptr<ObserverProgramSet>> set = ObserverProgramSet::Load(SysRoots{});
    if (!set) throw std::runtime_error(set.error().message);
    set_ = std::move(*set);
    for (size_t i = 0; i < directories; ++i) {
      const Result<uint32_t> number = set_->AddDirectory();
      if (!number) throw std::runtime_error(number.error().message);
      Result<ObserverFds> fds = set_->Share(*number);
      if (!fds) throw std::runtime_error(fds.error().message);
      auto programs = ObserverPrograms::Adopt(std::move(*fds), *number);
      if (!programs) throw std::runtime_error(programs.error().message);
      auto backend =
          ObserverBackend::Open(top + "/" + std::to_string(i), SysRoots{}, std::move(*programs));
      if (!backend) throw std::runtime_error(backend.error().message);
      backends_.push_back(std::move(*backend));
    }
    attacher_ = std::jthread([this](const std::stop_token& stop) { Attend(stop); });
    drainer_ = std::jthread([this](const std::stop_token& stop) { Drain(stop); });
  }
  ~Observed() {
    drainer_ = {};
    backends_.clear();
    attacher_ = {};
  }
  Observed(const Observed&) = delete;
  Observed& operator=(const Observed&) = delete;

  // `loading`: with positions, as while a service loads; else insertions alone.
  void Attach(size_t directories, bool loading) {
    for (size_t i = 0; i < directories; ++i) {
      const Status done = backends_[i]->Attach({.progress = loading, .beacon_bytes = kBeacon});
      if (!done) throw std::runtime_error(done.error().message);
    }
  }
  void Detach() {
    for (const auto& backend : backends_) backend->Detach();
    usleep(2000);  // ppcd, here a thread, detaches
  }
  uint64_t Lost() const {
    uint64_t lost = 0;
    for (const auto& backend : backends_) {
      const Result<BackendCounters> counters = backend->Counters();
      lost += counters ? counters->events_lost : 0;
    }
    return lost;
  }

 private:
  void Attend(const std::stop_token& stop) const {
    while (!stop.stop_requested()) {
      pollfd fd{set_->WakeFd(), POLLIN, 0};
      if (poll(&fd, 1, 5) > 0) (void)set_->Update();
    }
  }
  void Drain(const std::stop_token& stop) const {
    std::vector<Event> batch(512);
    while (!stop.stop_requested()) {
      (void)backends_[0]->Wait(20 * kNsPerMs, false, {});
      for (const auto& backend : backends_) {
        while (backend->Drain(batch) > 0) {
        }
      }
    }
  }

  std::unique_ptr<ObserverProgramSet> set_;
  std::vector<std::unique_ptr<ObserverBackend>> backends_;
  std::jthread attacher_;
  std::jthread drainer_;
};

struct Interval {
  double low;
  double median;
  double high;
};

// The 90% interval of the median, by order statistics.
Interval MedianOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  const auto reach = static_cast<size_t>(0.82 * std::sqrt(static_cast<double>(n)) + 0.5);
  const size_t middle = n / 2;
  return {values[middle > reach ? middle - reach : 0], values[middle],
          values[std::min(n - 1, middle + reach)]};
}

void Print(const char* what, const std::vector<double>& base, const std::vector<double>& with) {
  std::vector<double> differences;
  for (size_t i = 0; i < base.size(); ++i) differences.push_back(with[i] - base[i]);
  const Interval d = MedianOf(differences);
  std::printf("  %-44s %+7.3f us [%+.3f, %+.3f]\n", what, d.median, d.low, d.high);
}

struct Plan {
  int rounds = 40;
  size_t directories = 8;
  uint64_t slice_ns = 40 * kNsPerMs;
};

enum Variant { kNone, kEmpty, kIdle, kOne, kAll, kVariants };

void MeasureOne(const char* name, const Plan& plan, Observed* observed,
                const std::function<void()>& work) {
  Reader reader(work);
  std::unique_ptr<empty_bpf, BpfDeleter> empty(empty_bpf__open_and_load());
  if (empty == nullptr) throw std::runtime_error("cannot load programs that do nothing");
  std::array<std::vector<double>, kVariants> us;
  for (int round = 0; round < plan.rounds; ++round) {
    // Each comes after each other as often: what one leaves in the caches counts for none.
    for (int i = 0; i < kVariants; ++i) {
      const int variant = (i * (round % (kVariants - 1) + 1) + round) % kVariants;
      if (variant == kEmpty && empty_bpf__attach(empty.get()) != 0) {
        throw std::runtime_error("cannot attach programs that do nothing");
      }
      if (variant == kIdle) observed->Attach(plan.directories, false);
      if (variant == kOne) observed->Attach(1, true);
      if (variant == kAll) observed->Attach(plan.directories, true);
      us[static_cast<size_t>(variant)].push_back(reader.Measure(plan.slice_ns));
      if (variant == kEmpty) empty_bpf__detach(empty.get());
      if (variant >= kIdle) observed->Detach();
    }
  }
  std::printf("%s: %.3f us with nothing attached\n", name, MedianOf(us[kNone]).median);
  Print("programs that do nothing", us[kNone], us[kEmpty]);
  Print("registered, nothing loads", us[kNone], us[kIdle]);
  Print("one directory loads", us[kNone], us[kOne]);
  Print("one directory loads, above an empty program", us[kEmpty], us[kOne]);
  Print("all directories load, above one", us[kOne], us[kAll]);
}

void MakeFile(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644));
  const std::vector<char> block(1 << 20, 'x');
  for (size_t at = 0; at < kFileBytes; at += block.size()) {
    if (write(fd.Get(), block.data(), block.size()) != static_cast<ssize_t>(block.size())) {
      throw std::runtime_error(path + ": cannot write");
    }
  }
  fsync(fd.Get());
}

std::function<void()> Reads(const std::string& path, size_t piece) {
  const auto fd = std::make_shared<UniqueFd>(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const auto buffer = std::make_shared<std::vector<char>>(piece);
  const auto at = std::make_shared<size_t>(0);
  return [=] {
    if (pread(fd->Get(), buffer->data(), piece, static_cast<off_t>(*at)) < 0) _exit(1);
    *at = (*at + piece) % kFileBytes;
  };
}

// Maps 1 MiB, touches each page, unmaps.
std::function<void()> Passes(const std::string& path) {
  const auto fd = std::make_shared<UniqueFd>(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const auto at = std::make_shared<size_t>(0);
  return [=] {
    constexpr size_t kPiece = 1 << 20;
    void* const map =
        mmap(nullptr, kPiece, PROT_READ, MAP_PRIVATE, fd->Get(), static_cast<off_t>(*at));
    if (map == MAP_FAILED) _exit(1);
    for (size_t i = 0; i < kPiece; i += 4096) (void)static_cast<volatile char*>(map)[i];
    munmap(map, kPiece);
    *at = (*at + kPiece) % kFileBytes;
  };
}

void Run(const std::string& top, const Plan& plan) {
  for (size_t i = 0; i < plan.directories; ++i) {
    std::filesystem::create_directories(top + "/" + std::to_string(i));
  }
  const std::string inside = top + "/0/file";
  const std::string outside = top + "/file";
  MakeFile(inside);
  MakeFile(outside);
  Observed observed(top, plan.directories);
  MeasureOne("hot 4 KiB reads, outside", plan, &observed, Reads(outside, 4096));
  MeasureOne("hot 4 KiB reads, inside", plan, &observed, Reads(inside, 4096));
  MeasureOne("hot 1 MiB reads, inside", plan, &observed, Reads(inside, 1 << 20));
  MeasureOne("mapped passes over 1 MiB, inside", plan, &observed, Passes(inside));
  std::printf("events lost: %lu\n", observed.Lost());
}

}  // namespace

int main(int argc, char** argv) {
  using namespace ppc::bench;
  const Result<Options> options =
      Options::Parse(argc, argv, {"dir", "rounds", "directories", "slice-ms"}, {"help"});
  if (!options) return Fail("ppc-observer-cost", options.error());
  const Result<uint64_t> rounds = options->Number("rounds", 40);
  const Result<uint64_t> directories = options->Number("directories", 8);
  const Result<uint64_t> slice = options->Number("slice-ms", 40);
  if (options->Has("help") || !rounds || !directories || !slice || *rounds == 0 ||
      *directories == 0 || options->Text("dir", "").empty()) {
    std::fputs(kUsage, options->Has("help") ? stdout : stderr);
    return options->Has("help") ? 0 : 2;
  }
  const std::string top = options->Text("dir", "") + "/ppc-observer-cost";
  int status = 0;
  try {
    Run(top, Plan{static_cast<int>(*rounds), static_cast<size_t>(*directories), *slice * kNsPerMs});
  } catch (const std::exception& e) {
    std::fprintf(stderr, "ppc-observer-cost: %s\n", e.what());
    status = 1;
  }
  std::filesystem::remove_all(top);
  return status;
}
