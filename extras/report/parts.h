// SPDX-License-Identifier: Apache-2.0
// Owns dividing a start-up's time into parts, from samples.
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

// Seconds; without overlap_s they add up to the start-up.  Means, if several processes read the
// model at once.
struct StartParts {
  double init_s = 0;    // until reading the model begins
  double disk_s = 0;    // waiting for the disk or for a page being read
  double user_s = 0;    // the programs' own work
  double kernel_s = 0;  // in the kernel: faults, copying, mapping
  double no_cpu_s = 0;  // had work and no CPU
  double device_s = 0;  // asleep: the device, a timer, another process
  // No reader was seen, or one was found running although no clock of the kernel shows it.
  double unexplained_s = 0;
  // Clocks exceed the time found running: threads ran in parallel, or too shortly to be found.
  // Part of none of the above.
  double overlap_s = 0;
  double total_s = 0;
  uint64_t bytes = 0;    // of the model that were read
  uint64_t missed = 0;   // of them missed the page cache
  uint32_t readers = 0;  // processes averaged in the load's parts
  double disk_rate = 0;  // bytes a second of loads, 0 = unknown
  bool is_ready = false;
};

// Init lasts until a fiftieth of the bytes read in the end was read.
StartParts PartsOf(const StartLog& log);

// The greatest part, and the remedy.
struct Limit {
  std::string name;    // "disk", "init", ...
  std::string reason;  // one line
  std::string advice;  // one line
};
Limit LimitOf(const StartParts& parts);

// Content of a report file: {"schema", "service_id", "directory", "command", "parts", "limit",
// ...}.
Json ReportJson(const StartLog& log, const StartParts& parts, const Limit& limit);

// The service's own phases with their begins in ms.  Adds the length of each, up to the next; the
// last has no end.
Json PhasesJson(const std::vector<std::pair<std::string, uint64_t>>& phases);

// For users: lines; Markdown.  `report` from ReportJson().
std::string ReportText(const Json& report);
std::string ReportMarkdown(const Json& report);
// The report with all texts of its page.
Json PageWords(const Json& report);

}  // namespace ppc::ctl

#endif  // PPC_EXTRAS_REPORT_PARTS_H_
