// SPDX-License-Identifier: Apache-2.0
#include "daemon/base/cpu_set.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <iterator>

#include "daemon/base/text.h"

namespace ppc {
namespace {

constexpr int kMaxCpus = 8192;

// Larger than glibc's cpu_set_t, on the stack.
struct FixedCpuSet {
  cpu_set_t part[kMaxCpus / CPU_SETSIZE];
};

// "3" or "3-5" -> first, last.
bool ParseRange(std::string_view text, int* first, int* last) {
  const char* const end = text.data() + text.size();
  auto [at, ec] = std::from_chars(text.data(), end, *first);
  if (ec != std::errc()) return false;
  *last = *first;
  if (at != end && *at == '-') {
    const auto second = std::from_chars(at + 1, end, *last);
    if (second.ec != std::errc()) return false;
    at = second.ptr;
  }
  return at == end && *first >= 0 && *first <= *last && *last < kMaxCpus;
}

}  // namespace

Result<CpuList> ParseCpuList(std::string_view text) {
  CpuList cpus;
  while (!text.empty()) {
    std::string_view part = Cut(&text, ',');
    while (!part.empty() && (part.back() == '\n' || part.back() == ' ')) part.remove_suffix(1);
    if (part.empty()) continue;
    int first = 0;
    int last = 0;
    if (!ParseRange(part, &first, &last)) {
      return Error{EINVAL, "\"" + std::string(part) + "\" is not a CPU range such as 0-3"};
    }
    for (int cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
  }
  std::sort(cpus.begin(), cpus.end());
  cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
  return cpus;
}

std::string FormatCpuList(const CpuList& cpus) {
  std::string out;
  for (size_t i = 0; i < cpus.size();) {
    size_t j = i;
    while (j + 1 < cpus.size() && cpus[j + 1] == cpus[j] + 1) ++j;
    if (!out.empty()) out += ',';
    out += std::to_string(cpus[i]);
    if (j > i) out += '-' + std::to_string(cpus[j]);
    i = j + 1;
  }
  return out;
}

CpuList Intersect(const CpuList& a, const CpuList& b) {
  CpuList out;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(out));
  return out;
}

CpuList AllowedCpus() {
  CpuList cpus;
  FixedCpuSet fixed{};
  cpu_set_t* const set = fixed.part;
  const size_t bytes = sizeof(fixed);
  if (sched_getaffinity(0, bytes, set) == 0) {
    for (int cpu = 0; cpu < kMaxCpus; ++cpu) {
      if (CPU_ISSET_S(cpu, bytes, set)) cpus.push_back(cpu);
    }
  }
  return cpus;
}

Status BindThread(const CpuList& cpus) {
  if (cpus.empty()) return Error{EINVAL, "no CPU to bind the thread to"};
  FixedCpuSet fixed{};
  cpu_set_t* const set = fixed.part;
  const size_t bytes = sizeof(fixed);
  for (const int cpu : cpus) CPU_SET_S(static_cast<size_t>(cpu), bytes, set);
  if (sched_setaffinity(0, bytes, set) != 0) {
    return PosixError("bind to CPUs " + FormatCpuList(cpus), errno);
  }
  return Ok();
}

}  // namespace ppc
