// SPDX-License-Identifier: Apache-2.0
// Owns guessing what a mistyped name was to be: verbs, options, keys of configurations.
// Threads: pure functions, any thread.
#ifndef PPC_DAEMON_BASE_SUGGEST_H_
#define PPC_DAEMON_BASE_SUGGEST_H_

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace ppc {

// Letters to insert, drop, replace or swap with their neighbour.
size_t EditDistance(std::string_view a, std::string_view b);

// "; did you mean 'status'?", or "" where nothing known is near.
std::string DidYouMean(std::string_view given, std::span<const std::string> known);

}  // namespace ppc

#endif  // PPC_DAEMON_BASE_SUGGEST_H_
