// SPDX-License-Identifier: Apache-2.0
#include "daemon/supervisor/floor_thread.h"

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "daemon/base/log.h"

namespace ppc::control {

using namespace std::chrono_literals;

FloorThread::FloorThread(const Options& options)
    : floor_bytes_(options.free_floor), floor_(options.roots, options.free_floor) {
  if (floor_bytes_ > 0) thread_ = std::jthread([this](const std::stop_token& stop) { Run(stop); });
}

Json FloorThread::Describe() const {
  if (floor_bytes_ == 0) return nullptr;
  return {
      {"bytes", floor_bytes_}, {"asked_bytes", reclaimed_.load()}, {"fails", has_failed_.load()}};
}

void FloorThread::Run(const std::stop_token& stop) {
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

}  // namespace ppc::control
