// SPDX-License-Identifier: Apache-2.0
// Owns text for people: sizes, bars; and the end of text that the C library allocated.
#ifndef PPC_TOOLS_PPCCTL_TEXT_H_
#define PPC_TOOLS_PPCCTL_TEXT_H_

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

namespace ppc::ctl {

struct FreeText {
  void operator()(char* text) const { std::free(text); }
};

// "1.5 GiB"; below 1 KiB "512 B".
std::string HumanBytes(uint64_t bytes);

// One character per share (0..1): full to empty blocks, or ASCII where the
// locale has no UTF-8.
std::string Bar(const std::vector<double>& shares, bool is_utf8);
bool IsUtf8Locale();

}  // namespace ppc::ctl

#endif  // PPC_TOOLS_PPCCTL_TEXT_H_
