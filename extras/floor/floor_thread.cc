// SPDX-License-Identifier: Apache-2.0
// The thread that keeps memory free (FreeFloor): the kernel may reclaim for long, and the loop of
// ppcd waits for nothing.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <thread>

#include "daemon/base/log.h"
#include "daemon/supervisor/memory_floor.h"
#include "extras/floor/free_floor.h"

namespace ppc::control {
namespace {

using namespace std::chrono_literals;

class FloorThread : public MemoryFloor {
 public:
  FloorThread(const SysRoots& roots, uint64_t bytes)
      : floor_bytes_(bytes),
        floor_(roots, bytes),
        thread_([this](const std::stop_token& stop) { Run(stop); }) {}

  Json Describe() const override {
    return {
        {"bytes", floor_bytes_}, {"asked_bytes", reclaimed_.load()}, {"fails", has_failed_.load()}};
  }

 private:
  void Run(const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any woken;
    std::unique_lock lock(mutex);
    do {
      const Result<uint64_t> asked = floor_.Look();
      if (asked) reclaimed_ += *asked;
      if (has_failed_.exchange(!asked) != !asked)
        Log(asked ? LogLevel::kInfo : LogLevel::kError,
            asked ? "memory is kept free again" : "--free-floor: " + asked.error().message);
    } while (!woken.wait_for(lock, stop, 100ms, [&stop] { return stop.stop_requested(); }));
  }

  const uint64_t floor_bytes_;
  FreeFloor floor_;
  std::atomic<uint64_t> reclaimed_{0};  // bytes that the kernel was asked for
  std::atomic<bool> has_failed_{false};
  std::jthread thread_;  // last: it uses the others
};

}  // namespace

Result<std::unique_ptr<MemoryFloor>> KeepFree(const SysRoots& roots, uint64_t bytes) {
  return std::unique_ptr<MemoryFloor>(std::make_unique<FloorThread>(roots, bytes));
}

}  // namespace ppc::control
