// SPDX-License-Identifier: Apache-2.0
// Owns having a report drawn as one HTML page, by the renderer of tools/demo's (tools/lib/report),
// which is Python and lies beside ppcctl's other helpers.
#ifndef PPC_EXTRAS_REPORT_PAGE_H_
#define PPC_EXTRAS_REPORT_PAGE_H_

#include <string>

#include "daemon/base/json.h"
#include "daemon/base/result.h"

namespace ppc::ctl {

// `python`: its interpreter, a path or a name in PATH.
Result<std::string> ReportPage(const Json& report, const std::string& python = "python3");

}  // namespace ppc::ctl

#endif  // PPC_EXTRAS_REPORT_PAGE_H_
