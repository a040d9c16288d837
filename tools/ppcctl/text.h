// SPDX-License-Identifier: Apache-2.0
// Owns text for people: sizes, tables; and the end of text that the C library allocated.
#ifndef PPC_TOOLS_PPCCTL_TEXT_H_
#define PPC_TOOLS_PPCCTL_TEXT_H_

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "daemon/base/json.h"
#include "daemon/base/suggest.h"

namespace ppc::ctl {

struct FreeText {
  void operator()(char* text) const { std::free(text); }
};

// "1.5 GiB"; below 1 KiB "512 B".
std::string HumanBytes(uint64_t bytes);

// "3.2 s", "4 min 10 s", "2 h 5 min", "3 d 4 h".
std::string HumanSeconds(double seconds);

// Since 1970: "2026-01-31T12:00:00+0100".
std::string LocalTime(uint64_t time_ns);

// A number with its unit, by the dotted name that status gives it ("loader.latency_us").
std::string HumanCounter(const std::string& name, uint64_t value);

// Rows with as many cells each, columns aligned and two blanks apart.
std::string Table(const std::vector<std::vector<std::string>>& rows);

// "no_unmap: 33 MiB that were dropped were missed again": what the runtime's guard withholds, of
// the runner's object of a service in `status`; "" = nothing, or the guard is switched off.
std::string GuardLine(const Json& service);

}  // namespace ppc::ctl

#endif  // PPC_TOOLS_PPCCTL_TEXT_H_
