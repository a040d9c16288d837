// SPDX-License-Identifier: Apache-2.0
#include "daemon/cache/completions.h"

#include <sys/eventfd.h>
#include <unistd.h>

namespace ppc {

Completions::Completions() : wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void Completions::Push(const IoResult& result) {
  const std::lock_guard lock(mutex_);
  results_.push_back(result);
  KickLocked();
}

void Completions::WakeThreads() {
  const std::lock_guard lock(mutex_);
  KickLocked();
}

// Under the lock: a Take in between would look for the signal before it is there, and no
// thread would ever look again.
void Completions::KickLocked() {
  if (signalled_) return;
  signalled_ = true;
  // The counter cannot overflow: at most one signal is outstanding.
  (void)eventfd_write(wake_.Get(), 1);
}

void Completions::Take(std::vector<IoResult>* out) {
  const std::lock_guard lock(mutex_);
  out->swap(results_);
  if (!signalled_) return;
  signalled_ = false;
  eventfd_t count = 0;
  (void)eventfd_read(wake_.Get(), &count);
}

}  // namespace ppc
