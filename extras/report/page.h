// SPDX-License-Identifier: Apache-2.0
// Owns drawing a report as one HTML page, with tools/demo's renderer (tools/lib/report), which is
// Python and installed beside ppcctl's other helpers.
#ifndef PPC_EXTRAS_REPORT_PAGE_H_
#define PPC_EXTRAS_REPORT_PAGE_H_

#include <string>

#include "daemon/base/json.h"
#include "daemon/base/result.h"

namespace ppc::ctl {

// `python`: interpreter, a path or a name in PATH.
Result<std::string> ReportPage(const Json& report, const std::string& python = "python3");

}  // namespace ppc::ctl

#endif  // PPC_EXTRAS_REPORT_PAGE_H_
