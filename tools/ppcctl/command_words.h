// SPDX-License-Identifier: Apache-2.0
// Owns reading a command line that another program will run: its words, its options, which program
// it comes down to.  Runs nothing, expands nothing.
#ifndef PPC_TOOLS_PPCCTL_COMMAND_WORDS_H_
#define PPC_TOOLS_PPCCTL_COMMAND_WORDS_H_

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ppc::ctl {

// The words of a command; the script of `sh -c SCRIPT` as words of its own, without its quotes.
std::vector<std::string> WordsOf(const std::vector<std::string>& command);

// The value of `--name VALUE` or `--name=VALUE`, the last of any of these names.
std::optional<std::string> OptionValue(const std::vector<std::string>& words,
                                       std::initializer_list<std::string_view> names);

// What reads the model: behind wrappers (env, numactl, sh, ...) and interpreters, without its
// directory; "vllm.entrypoints.openai.api_server" of `python3 -m ...`.
std::string ProgramOf(const std::vector<std::string>& words);

}  // namespace ppc::ctl

#endif  // PPC_TOOLS_PPCCTL_COMMAND_WORDS_H_
