// SPDX-License-Identifier: Apache-2.0
#include "daemon/policy/policy_host.h"

#include <pthread.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <exception>
#include <utility>

#include "daemon/base/clock.h"
#include "daemon/base/threads.h"

namespace ppc {
namespace {

bool MayBlock(Hook hook) {
  return hook == Hook::kInit || hook == Hook::kExit || hook == Hook::kControl;
}

uint32_t HooksOf(const ppc_operation& table) {
  uint32_t hooks = 1u << static_cast<unsigned>(Hook::kBackground);
  const auto add = [&hooks](Hook hook, const auto& function) {
    if (function != nullptr) hooks |= 1u << static_cast<unsigned>(hook);
  };
  add(Hook::kInit, table.ppc_init);
  add(Hook::kExit, table.ppc_exit);
  add(Hook::kPrefetch, table.ppc_prefetch);
  add(Hook::kEvict, table.ppc_evict);
  add(Hook::kEvent, table.ppc_event);
  add(Hook::kPlan, table.ppc_plan);
  add(Hook::kDone, table.ppc_done);
  add(Hook::kControl, table.ppc_control);
  add(Hook::kTick, table.ppc_tick);
  return hooks;
}

}  // namespace

const char* HookName(Hook hook) {
  static constexpr const char* kNames[kHookCount] = {
      "ppc_init", "ppc_exit", "ppc_prefetch", "ppc_evict", "ppc_event",
      "ppc_plan", "ppc_done", "ppc_control",  "ppc_tick",  "background"};
  return kNames[static_cast<size_t>(hook)];
}

PolicyHost::PolicyHost(const ppc_operation& table, PolicyHostOptions options,
                       HostServices* services, Watchdog* watchdog)
    : table_(table),
      hooks_(HooksOf(table)),
      options_(options),
      services_(services),
      watchdog_(watchdog) {}

void PolicyHost::Fault(Hook hook, const std::string& what) {
  ++faults_;
  ++stats_[static_cast<size_t>(hook)].faults;
  last_fault_ = std::string(HookName(hook)) + " " + what;
  const uint64_t now = MonotonicNs();
  recent_faults_.push_back(now);
  while (now - recent_faults_.front() > options_.fault_window_ns) recent_faults_.pop_front();
  if (recent_faults_.size() >= options_.max_faults) dropped_ = true;
}

// Runs one hook.  False: not set, policy dropped, or it threw.
template <typename Call>
bool PolicyHost::Guard(Hook hook, Call&& call) {
  const bool is_owed = hook == Hook::kExit || hook == Hook::kBackground;
  if (!Has(hook) || (dropped_ && !is_owed)) return false;
  const uint64_t limit = options_.hook_timeout_ns * (MayBlock(hook) ? options_.blocking_factor : 1);
  const uint64_t start = MonotonicNs();
  if (watchdog_ != nullptr) watchdog_->Arm(HookName(hook), start, limit * options_.hang_factor);
  bool returned = false;
  try {
    call();
    returned = true;
  } catch (const std::exception& e) {
    Fault(hook, std::string("threw: ") + e.what());
  } catch (...) {
    Fault(hook, "threw something that is no std::exception");
  }
  if (watchdog_ != nullptr) watchdog_->Disarm();
  const uint64_t elapsed = MonotonicNs() - start;
  HookStats& stats = stats_[static_cast<size_t>(hook)];
  ++stats.calls;
  stats.total_ns += elapsed;
  stats.max_ns = std::max(stats.max_ns, elapsed);
  if (elapsed > limit) {
    Fault(hook, "took " + std::to_string(elapsed / kNsPerMs) + " ms, allowed are " +
                    std::to_string(limit / kNsPerMs));
  }
  return returned;
}

template <typename List>
RawList PolicyHost::CheckList(Hook hook, const List* list, uint32_t known_flags) {
  RawList out;
  if (list == nullptr || list->nr == 0) {
    // An empty list may still interrupt nothing: there are no groups to name.
    return out;
  }
  if (list->ios == nullptr) {
    Fault(hook, "returned " + std::to_string(list->nr) + " ranges at NULL");
    return out;
  }
  if ((list->flags & ~known_flags) != 0) {
    Fault(hook, "returned a list with unknown flags");
    return out;
  }
  const uint32_t count = std::min<uint32_t>(list->nr, PPC_MAX_IOS);
  out.ios = std::span<const ppc_io>(list->ios, count);
  out.flags = list->flags;
  out.refused = list->nr - count;
  return out;
}

RawList PolicyHost::CheckPrefetch(Hook hook, const prefetch_ios* list) {
  RawList out = CheckList(hook, list, PPC_IOS_REPLACE | PPC_IOS_DEADLINES);
  if ((out.flags & PPC_IOS_DEADLINES) == 0) return out;
  const auto* const timed = reinterpret_cast<const timed_prefetch_ios*>(list);
  if (timed->deadline_ns == nullptr) {
    Fault(hook, "returned the deadlines of " + std::to_string(list->nr) + " ranges at NULL");
    return {};
  }
  out.deadlines = std::span(timed->deadline_ns, out.ios.size());
  return out;
}

Status PolicyHost::Init(ContextFacts facts) {
  context_ = std::make_unique<PolicyContext>(std::move(facts), services_);
  int code = 0;
  if (Has(Hook::kInit)) {
    if (!Guard(Hook::kInit, [&] { code = table_.ppc_init(context_->Get()); })) {
      return Error{EPROTO, "the policy's " + last_fault_};
    }
    if (code != 0) {
      const std::string reason = context_->last_error();
      return Error{ECANCELED, "the policy refused: ppc_init returned " + std::to_string(code) +
                                  (reason.empty() ? "" : " (" + reason + ")")};
    }
  }
  initialized_ = true;
  return Ok();
}

void PolicyHost::Exit() {
  if (!std::exchange(initialized_, false)) return;
  Guard(Hook::kExit, [&] { (void)table_.ppc_exit(); });
}

RawList PolicyHost::Prefetch(miss_io* miss) {
  prefetch_ios* list = nullptr;
  if (!Guard(Hook::kPrefetch, [&] { list = table_.ppc_prefetch(miss); })) return {};
  return CheckPrefetch(Hook::kPrefetch, list);
}

RawList PolicyHost::Evict(miss_io* miss) {
  evict_ios* list = nullptr;
  if (!Guard(Hook::kEvict, [&] { list = table_.ppc_evict(miss); })) return {};
  return CheckList(Hook::kEvict, list, 0);
}

RawList PolicyHost::Plan(const ppc_plan_request& request) {
  prefetch_ios* list = nullptr;
  if (!Guard(Hook::kPlan, [&] { list = table_.ppc_plan(&request); })) return {};
  return CheckPrefetch(Hook::kPlan, list);
}

void PolicyHost::Event(const miss_io& event) {
  Guard(Hook::kEvent, [&] { table_.ppc_event(&event); });
}

void PolicyHost::Done(const ppc_result& result) {
  Guard(Hook::kDone, [&] { table_.ppc_done(&result); });
}

void PolicyHost::Tick(uint64_t now_ns) {
  Guard(Hook::kTick, [&] { table_.ppc_tick(now_ns); });
}

void PolicyHost::BackgroundDone(void (*done)(void*), void* arg, const std::string& error) {
  if (!error.empty()) Fault(Hook::kBackground, error);
  if (done != nullptr) Guard(Hook::kBackground, [&] { done(arg); });
}

Result<std::string> PolicyHost::Control(const std::string& json) {
  const char* reply = nullptr;
  std::string copy;
  const bool returned = Guard(Hook::kControl, [&] {
    reply = table_.ppc_control(json.c_str());
    if (reply != nullptr) copy = reply;
  });
  if (!Has(Hook::kControl)) return Error{ENOTSUP, "the policy has no ppc_control"};
  if (!returned) return Error{EBADMSG, "the policy's " + last_fault_};
  if (reply == nullptr) return Error{ENOTSUP, "the policy does not know this op"};
  return copy;
}

Watchdog::Watchdog(Options options)
    : options_(std::move(options)), thread_(StartThread("the watchdog", [this] { Run(); })) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void Watchdog::Arm(const char* hook, uint64_t start_ns, uint64_t limit_ns) {
  hook_.store(hook, std::memory_order_relaxed);
  limit_ns_.store(limit_ns, std::memory_order_relaxed);
  start_ns_.store(start_ns, std::memory_order_release);
}

void Watchdog::Disarm() { start_ns_.store(0, std::memory_order_release); }

Watchdog::Call Watchdog::InFlight() const {
  const uint64_t start = start_ns_.load(std::memory_order_acquire);
  if (start == 0) return {};
  const char* const hook = hook_.load(std::memory_order_acquire);
  const uint64_t now = MonotonicNs();
  // A hook that ended meanwhile may have left another's name behind.
  if (start_ns_.load(std::memory_order_acquire) != start) return {};
  return {hook, now > start ? now - start : 1};
}

void Watchdog::Run() {
  pthread_setname_np(pthread_self(), "ppc-watchdog");
  std::unique_lock lock(mutex_);
  while (!stop_) {
    wake_.wait_for(lock, std::chrono::nanoseconds(options_.period_ns));
    const uint64_t start = start_ns_.load(std::memory_order_acquire);
    if (stop_ || start == 0) continue;
    const uint64_t limit = limit_ns_.load(std::memory_order_relaxed);
    const uint64_t now = MonotonicNs();
    const uint64_t elapsed = now > start ? now - start : 0;
    // A hook that ended meanwhile may have left another's limit behind: look again.
    if (start_ns_.load(std::memory_order_acquire) != start) continue;
    if (elapsed > limit) {
      if (options_.on_hang) options_.on_hang(hook_.load(std::memory_order_relaxed), elapsed);
      return;
    }
    if (elapsed > options_.period_ns && options_.on_busy) options_.on_busy();
  }
}

}  // namespace ppc
