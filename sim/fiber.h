// SPDX-License-Identifier: Apache-2.0
// Owns simulated time: events in order of time, and fibers, so that code that waits (the real
// loader, a worker of a service) runs unchanged, in one thread.
//
// The same program and seed give the same order: events of equal time run in order of submission.
// Threads: one, that of the constructor.
#ifndef PPC_SIM_FIBER_H_
#define PPC_SIM_FIBER_H_

#include <ucontext.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <queue>
#include <string>
#include <thread>
#include <vector>

#include "sim/stack_note.h"

namespace ppc::sim {

class Scheduler;

// Where a stack goes on: a new one by its context, others by the jump.
struct StackPlace {
  ucontext_t context{};
  std::array<void*, 5> jump{};
  bool is_new = false;

  void SwitchTo(StackPlace* next);
};

class Fiber {
 public:
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;
  bool IsDone() const { return done_; }

 private:
  friend class Scheduler;
  Fiber(Scheduler* scheduler, std::function<void()> body);
  static void Enter(unsigned low, unsigned high);

  Scheduler* const scheduler_;
  std::function<void()> body_;
  std::byte* stack_ = nullptr;
  StackPlace place_;
  std::unique_ptr<StackNote> note_;
  uint64_t wakeups_ = 0;  // changes with each wake-up, so that an overtaken timer is recognised
  bool waits_ = false;
  bool done_ = false;
  bool killed_ = false;
  bool held_ = false;
  bool is_due_ = false;  // its time came while it was held
};

// Thrown out of Sleep and Wait in a fiber that is being killed.
struct FiberKilled {};

class Scheduler {
 public:
  // The clock starts at one second, so that 0 can mean "never".
  static constexpr uint64_t kStartNs = 1'000'000'000;

  Scheduler() = default;
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  uint64_t NowNs() const { return now_ns_; }
  void At(uint64_t time_ns, std::function<void()> event);

  // Starts at the current time.  The scheduler owns the fiber.
  Fiber* Spawn(std::function<void()> body);
  // Unwinds the fiber and ends it.  Not to be called by itself.
  void Kill(Fiber* fiber);
  // Suspends the fiber until Release; its timers and wake-ups go on.
  void Hold(Fiber* fiber) { fiber->held_ = true; }
  void Release(Fiber* fiber);

  // In a fiber: sleeps until the time, or until Wake; true if woken before the time.
  bool SleepUntil(uint64_t time_ns);
  void Sleep(uint64_t ns) { SleepUntil(now_ns_ + ns); }
  // Sleeps until Wake.
  void Wait() { SleepUntil(~uint64_t{0}); }
  void Wake(Fiber* fiber);
  Fiber* Current() const { return current_; }
  // False on a policy's helper threads, which are outside the simulation and may not wait in its
  // time.
  bool IsOwnThread() const { return std::this_thread::get_id() == thread_; }

  // Runs events until the condition holds (checked after each) or the time has come; false: the
  // time has come, or no event is left.
  bool RunUntil(const std::function<bool()>& condition, uint64_t end_ns);
  uint64_t Steps() const { return steps_; }

 private:
  struct Item {
    uint64_t time_ns;
    uint64_t order;
    Fiber* fiber;                  // nullptr: `event`
    uint64_t wakeups;              // of the fiber when this was queued
    std::function<void()>* event;  // owned
  };
  struct Later {
    bool operator()(const Item& a, const Item& b) const {
      return a.time_ns != b.time_ns ? a.time_ns > b.time_ns : a.order > b.order;
    }
  };

  friend class Fiber;
  void Resume(Fiber* fiber);
  void Suspend(Fiber* fiber);

  uint64_t now_ns_ = kStartNs;
  uint64_t order_ = 0;
  uint64_t steps_ = 0;
  std::priority_queue<Item, std::vector<Item>, Later> queue_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  Fiber* current_ = nullptr;
  StackPlace main_;
  StackNote main_note_;
  const std::thread::id thread_ = std::this_thread::get_id();
};

}  // namespace ppc::sim

#endif  // PPC_SIM_FIBER_H_
