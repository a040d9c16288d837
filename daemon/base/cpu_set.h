// SPDX-License-Identifier: Apache-2.0
// Owns sets of CPUs: the kernel's list text ("0-3,8") and binding the calling thread.
#ifndef PPC_DAEMON_BASE_CPU_SET_H_
#define PPC_DAEMON_BASE_CPU_SET_H_

#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/result.h"

namespace ppc {

// Sorted, without repetition.
using CpuList = std::vector<int>;

Result<CpuList> ParseCpuList(std::string_view text);
std::string FormatCpuList(const CpuList& cpus);
CpuList Intersect(const CpuList& a, const CpuList& b);

// CPUs the calling thread may run on.
CpuList AllowedCpus();
// Binds the calling thread; an empty list is an error.
Status BindThread(const CpuList& cpus);

}  // namespace ppc

#endif  // PPC_DAEMON_BASE_CPU_SET_H_
