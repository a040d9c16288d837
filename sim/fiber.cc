// SPDX-License-Identifier: Apache-2.0
#include "sim/fiber.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>
#include <utility>

namespace ppc::sim {
namespace {

constexpr size_t kStackBytes = 512 << 10;  // of address space; only touched pages take memory

}  // namespace

// Goes to another stack, until that one, or a third, comes back here.  swapcontext() makes a system
// call for the signal mask each time, a quarter of a simulation's time; only the sanitizers need
// it.
[[gnu::noinline]] void StackPlace::SwitchTo(StackPlace* next) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  swapcontext(&context, &next->context);
#else
  if (__builtin_setjmp(jump.data()) != 0) return;
  if (std::exchange(next->is_new, false)) setcontext(&next->context);
  __builtin_longjmp(next->jump.data(), 1);
#endif
}

Fiber::Fiber(Scheduler* scheduler, std::function<void()> body)
    : scheduler_(scheduler), body_(std::move(body)) {
  void* stack = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (stack == MAP_FAILED) throw std::bad_alloc();
  stack_ = static_cast<std::byte*>(stack);
  note_ = std::make_unique<StackNote>(stack_, kStackBytes);
  place_.is_new = true;
  ucontext_t& context = place_.context;
  getcontext(&context);
  context.uc_stack.ss_sp = stack_;
  context.uc_stack.ss_size = kStackBytes;
  context.uc_link = nullptr;
  const auto self = reinterpret_cast<uintptr_t>(this);
  makecontext(&context, reinterpret_cast<void (*)()>(&Fiber::Enter), 2, static_cast<unsigned>(self),
              static_cast<unsigned>(self >> 32));
}

Fiber::~Fiber() { munmap(stack_, kStackBytes); }

void Fiber::Enter(unsigned low, unsigned high) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): makecontext passes ints.
  auto* self = reinterpret_cast<Fiber*>(uintptr_t{low} | uintptr_t{high} << 32);
  self->note_->Enter(&self->scheduler_->main_note_);
  try {
    if (!self->killed_) self->body_();
  } catch (const FiberKilled&) {
  }
  self->body_ = nullptr;
  self->done_ = true;
  self->note_->Leave(self->scheduler_->main_note_, /*is_for_good=*/true);
  self->place_.SwitchTo(&self->scheduler_->main_);
}

Scheduler::~Scheduler() {
  // Unwinds the fibers, which destroys the objects on their stacks.
  for (const auto& fiber : fibers_) Kill(fiber.get());
  for (; !queue_.empty(); queue_.pop()) delete queue_.top().event;
}

void Scheduler::At(uint64_t time_ns, std::function<void()> event) {
  queue_.push(Item{std::max(time_ns, now_ns_), order_++, nullptr, 0,
                   new std::function<void()>(std::move(event))});
}

Fiber* Scheduler::Spawn(std::function<void()> body) {
  fibers_.push_back(std::unique_ptr<Fiber>(new Fiber(this, std::move(body))));
  Fiber* fiber = fibers_.back().get();
  fiber->waits_ = true;
  Wake(fiber);
  return fiber;
}

void Scheduler::Resume(Fiber* fiber) {
  Fiber* const before = std::exchange(current_, fiber);
  fiber->waits_ = false;
  main_note_.Leave(*fiber->note_);
  main_.SwitchTo(&fiber->place_);
  main_note_.Enter(fiber->note_.get());
  current_ = before;
}

void Scheduler::Suspend(Fiber* fiber) {
  fiber->waits_ = true;
  fiber->note_->Leave(main_note_);
  fiber->place_.SwitchTo(&main_);
  fiber->note_->Enter(&main_note_);
  if (fiber->killed_) throw FiberKilled();
}

void Scheduler::Kill(Fiber* fiber) {
  if (fiber->done_ || fiber == current_) return;
  fiber->killed_ = true;
  ++fiber->wakeups_;
  if (current_ == nullptr) {
    Resume(fiber);
    return;
  }
  // A fiber resumes no other fiber: the main loop does, next.
  At(now_ns_, [this, fiber] {
    if (!fiber->done_) Resume(fiber);
  });
}

void Scheduler::Release(Fiber* fiber) {
  fiber->held_ = false;
  if (!std::exchange(fiber->is_due_, false)) return;
  queue_.push(Item{now_ns_, order_++, fiber, fiber->wakeups_, nullptr});
}

bool Scheduler::SleepUntil(uint64_t time_ns) {
  Fiber* fiber = current_;
  const uint64_t wakeups = ++fiber->wakeups_;
  if (time_ns != ~uint64_t{0}) {
    queue_.push(Item{std::max(time_ns, now_ns_), order_++, fiber, wakeups, nullptr});
  }
  Suspend(fiber);
  return fiber->wakeups_ != wakeups;
}

void Scheduler::Wake(Fiber* fiber) {
  if (fiber->done_ || !fiber->waits_) return;
  fiber->waits_ = false;  // once
  queue_.push(Item{now_ns_, order_++, fiber, ++fiber->wakeups_, nullptr});
}

bool Scheduler::RunUntil(const std::function<bool()>& condition, uint64_t end_ns) {
  while (!condition()) {
    if (queue_.empty() || queue_.top().time_ns > end_ns) return false;
    const Item item = queue_.top();
    queue_.pop();
    now_ns_ = item.time_ns;
    ++steps_;
    if (item.fiber == nullptr) {
      const std::unique_ptr<std::function<void()>> event(item.event);
      (*event)();
    } else if (!item.fiber->done_ && item.fiber->wakeups_ == item.wakeups) {
      if (item.fiber->held_) {
        item.fiber->is_due_ = true;
      } else {
        Resume(item.fiber);
      }
    }
  }
  return true;
}

}  // namespace ppc::sim
