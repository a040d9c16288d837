// SPDX-License-Identifier: Apache-2.0
// Owns making a report of one start-up: asking ppcd for the service's progress while the sampler
// looks, and writing what came of it.
// Threads: Begin() and End() of one thread.
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

// Owns having a report drawn as one HTML page, by the renderer of tools/demo's (tools/lib/report),
// which is Python and lies beside ppcctl's other helpers.
//
// `python`: its interpreter, a path or a name in PATH.
Result<std::string> ReportPage(const Json& report, const std::string& python = "python3");

class StartReport {
 public:
  // socket "" = the usual one.  mount and id: the service's.
  StartReport(std::string socket, std::string mount, std::string id, std::string command);
  ~StartReport();
  StartReport(const StartReport&) = delete;
  StartReport& operator=(const StartReport&) = delete;

  void Begin(pid_t pid, uint64_t begin_ns);
  // Until it is ready, or the process is gone.
  void Wait();
  // As ReportJson() has it, with whose it is.  has_succeeded: the process has ended well, which is
  // as good as ready where no message said so.
  Json End(bool has_succeeded = false);

 private:
  class Asker;

  const std::string mount_;
  const std::string id_;
  const std::string command_;
  std::unique_ptr<Asker> asker_;
  std::unique_ptr<Sampler> sampler_;
};

// By the ending of its name: .html, .md, .json, else lines.
Result<std::string> ReportFor(const std::string& file, const Json& report);
// What cannot be drawn as a page is kept as FILE.json, which the error says.
Status WriteReport(const std::string& file, const Json& report);

}  // namespace ppc::ctl

#endif  // PPC_EXTRAS_REPORT_START_REPORT_H_
