// SPDX-License-Identifier: Apache-2.0
//
// Questions to a disk that answers late, so several at once.
#ifndef POLICIES_MAIO_BASE_PARALLEL_FOR_H_
#define POLICIES_MAIO_BASE_PARALLEL_FOR_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <system_error>
#include <thread>
#include <vector>

#include "policies/maio/base/tuning.h"

namespace ppc::maio {

// ask(0) to ask(count - 1), begun in this order, from this thread and helpers; returns when all
// have been.  Few are not worth a helper.
template <typename Ask>
void ParallelFor(size_t count, const Ask& ask) {
  std::atomic<size_t> next{0};
  const auto some = [&] {
    for (size_t i = next++; i < count; i = next++) ask(i);
  };
  std::vector<std::jthread> helpers;
  try {
    const size_t threads = std::min(kLookUpsAtOnce, count / kLookUpsPerHelper);
    for (size_t i = 1; i < threads; i++) helpers.emplace_back(some);
  } catch (const std::system_error&) {
    // No more threads: those that there are will do.
  }
  some();
}

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_BASE_PARALLEL_FOR_H_
