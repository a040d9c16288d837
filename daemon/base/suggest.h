// SPDX-License-Identifier: Apache-2.0
// Owns what is said to who has to type something: what a mistyped name was to be (verbs, options,
// keys of configurations), and words of commands.
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

// A word for a shell's command line, in quotes where it needs them.
std::string ShellWord(const std::string& word);

}  // namespace ppc

#endif  // PPC_DAEMON_BASE_SUGGEST_H_
