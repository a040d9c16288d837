// SPDX-License-Identifier: Apache-2.0
// Owns telling the address and thread sanitizers of switches between stacks: else they report a
// fiber's use of its own stack as errors.  Does nothing in other builds.
// Threads: one, that of the fibers.
#ifndef PPC_SIM_STACK_NOTE_H_
#define PPC_SIM_STACK_NOTE_H_

#include <cstddef>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

namespace ppc::sim {

class StackNote {
 public:
  // The thread's own stack, which the sanitizer knows.
  StackNote() = default;
  // A fiber's stack.
  StackNote([[maybe_unused]] const void* bottom, [[maybe_unused]] size_t bytes) {
#ifdef __SANITIZE_ADDRESS__
    bottom_ = bottom;
    bytes_ = bytes;
#endif
#ifdef __SANITIZE_THREAD__
    fiber_ = __tsan_create_fiber(0);
    is_own_ = true;
#endif
  }
  ~StackNote() {
#ifdef __SANITIZE_THREAD__
    if (is_own_) __tsan_destroy_fiber(fiber_);
#endif
  }
  StackNote(const StackNote&) = delete;
  StackNote& operator=(const StackNote&) = delete;

  // Call right before leaving this stack, temporarily or for good.
  void Leave([[maybe_unused]] const StackNote& next, [[maybe_unused]] bool is_for_good = false) {
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_start_switch_fiber(is_for_good ? nullptr : &fake_, next.bottom_, next.bytes_);
#endif
#ifdef __SANITIZE_THREAD__
    if (fiber_ == nullptr) fiber_ = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(next.fiber_, 0);
#endif
  }
  // Call right after entering this stack.
  void Enter([[maybe_unused]] StackNote* before) {
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(fake_, &before->bottom_, &before->bytes_);
#endif
  }

 private:
#ifdef __SANITIZE_ADDRESS__
  const void* bottom_ = nullptr;
  size_t bytes_ = 0;
  void* fake_ = nullptr;
#endif
#ifdef __SANITIZE_THREAD__
  void* fiber_ = nullptr;
  bool is_own_ = false;
#endif
};

}  // namespace ppc::sim

#endif  // PPC_SIM_STACK_NOTE_H_
