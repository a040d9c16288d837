// SPDX-License-Identifier: Apache-2.0
// Owns what a start-up's time went to, by what was seen of it.
// Threads: pure functions, any thread.
#ifndef PPC_EXTRAS_REPORT_PARTS_H_
#define PPC_EXTRAS_REPORT_PARTS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "daemon/base/json.h"
#include "extras/report/sampler.h"

namespace ppc::ctl {

// Seconds; but for overlap_s they add up to the start-up.  The mean, if several processes read the
// model at once.
struct StartParts {
  double init_s = 0;    // until the model begins to be read
  double disk_s = 0;    // waiting for the disk or for a page that is on its way
  double user_s = 0;    // the programs' own work
  double kernel_s = 0;  // in the kernel: faults, copying, mapping
  double no_cpu_s = 0;  // had work and no CPU
  double device_s = 0;  // asleep: the device, a timer, another process
  // No reader was seen, or one was found running and no clock of the kernel says so.
  double unexplained_s = 0;
  // Clocks said more than was found running: of several threads at once, or of ones too short to be
  // found.  In none of the parts.
  double overlap_s = 0;
  double total_s = 0;
  uint64_t bytes = 0;    // of the model that were read
  uint64_t missed = 0;   // of them not found in the page cache
  uint32_t readers = 0;  // processes that the load's parts are of
  double disk_rate = 0;  // bytes a second that loads saw, 0 = not known
  bool is_ready = false;
};

// Until the model begins to be read is init: until a fiftieth of what was read in the end.
StartParts PartsOf(const StartLog& log);

// The greatest part, and what would make it smaller.
struct Limit {
  std::string name;    // "disk", "init", ...
  std::string reason;  // one line
  std::string advice;  // one line
};
Limit LimitOf(const StartParts& parts);

// What a report file has: {"schema", "service_id", "directory", "command", "parts", "limit", ...}.
Json ReportJson(const StartLog& log, const StartParts& parts, const Limit& limit);

// What the service itself told of its start-up: phases, and after how many ms each began.  Adds how
// long each took, up to the next; the last has no end.
Json PhasesJson(const std::vector<std::pair<std::string, uint64_t>>& phases);

// For people: lines; Markdown.  `report` as ReportJson() made it.
std::string ReportText(const Json& report);
std::string ReportMarkdown(const Json& report);
// The report with every word that its page shows.
Json PageWords(const Json& report);

}  // namespace ppc::ctl

#endif  // PPC_EXTRAS_REPORT_PARTS_H_
