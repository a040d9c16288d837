// SPDX-License-Identifier: Apache-2.0
// Owns making a report of one start-up: asks ppcd for the service's progress while the sampler
// looks, and writes the result.
// Draws the report as an HTML page.
// Threads: Begin() and End() on one thread.
#ifndef PPC_EXTRAS_REPORT_START_REPORT_H_
#define PPC_EXTRAS_REPORT_START_REPORT_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "daemon/base/json.h"
#include "daemon/base/result.h"
#include "extras/report/sampler.h"

namespace ppc::ctl {

// Owns drawing a report as one HTML page, with tools/demo's renderer (tools/lib/report), which is
// Python and installed beside ppcctl's other helpers.
//
// `python`: interpreter, a path or a name in PATH.
Result<std::string> ReportPage(const Json& report, const std::string& python = "python3");

class StartReport {
 public:
  // socket "" = the default.  mount and id: the service's.
  StartReport(std::string socket, std::string mount, std::string id, std::string command);
  ~StartReport();
  StartReport(const StartReport&) = delete;
  StartReport& operator=(const StartReport&) = delete;

  void Begin(pid_t pid, uint64_t begin_ns);
  // Until it is ready, or the process is gone.
  void Wait();
  // ReportJson() with the service and command.  has_succeeded: the process exited well, which
  // counts as ready if no message reported it.
  Json End(bool has_succeeded = false);

 private:
  class Asker;

  const std::string mount_;
  const std::string id_;
  const std::string command_;
  std::unique_ptr<Asker> asker_;
  std::unique_ptr<Sampler> sampler_;
};

// By the file name's suffix: .html, .md, .json, else lines.
Result<std::string> ReportFor(const std::string& file, const Json& report);
// If the page cannot be drawn, keeps the report as FILE.json; the error says so.
Status WriteReport(const std::string& file, const Json& report);

}  // namespace ppc::ctl

#endif  // PPC_EXTRAS_REPORT_START_REPORT_H_
