// SPDX-License-Identifier: Apache-2.0
// Owns help for typed commands: the known name nearest to a mistyped one (verbs, options, keys of
// configurations), and quoting of shell words.
// Threads: pure functions, any thread.
#ifndef PPC_DAEMON_BASE_SUGGEST_H_
#define PPC_DAEMON_BASE_SUGGEST_H_

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace ppc {

// Letters to insert, drop, replace or swap with a neighbour.
size_t EditDistance(std::string_view a, std::string_view b);

// "; did you mean 'status'?", or "" if no known name is near.
std::string DidYouMean(std::string_view given, std::span<const std::string> known);

// Quotes a word for a shell's command line if needed.
std::string ShellWord(const std::string& word);

}  // namespace ppc

#endif  // PPC_DAEMON_BASE_SUGGEST_H_
