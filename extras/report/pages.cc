// SPDX-License-Identifier: Apache-2.0
// Writes a report as text, Markdown and JSON.
#include <algorithm>
#include <array>
#include <cstdio>

#include "extras/report/parts.h"
#include "tools/ppcctl/text.h"

namespace ppc::ctl {
namespace {

struct Row {
  const char* key;
  const char* name;
};
constexpr std::array kRows = {
    Row{"init_s", "before the model is read"},
    Row{"disk_s", "waiting for the disk"},
    Row{"device_s", "asleep: the device, a timer, others"},
    Row{"kernel_s", "in the kernel: faults, copying"},
    Row{"user_s", "the programs' own work"},
    Row{"no_cpu_s", "work and no CPU"},
    Row{"unexplained_s", "unexplained"},
};

std::string Fixed(double value, int digits) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  return text.data();
}

double PartOf(const Json& report, const char* key) { return report["parts"].value(key, 0.0); }

std::string Share(const Json& report, const char* key) {
  const double total = PartOf(report, "total_s");
  return Fixed(total > 0 ? 100 * PartOf(report, key) / total : 0, 0) + "%";
}

// The policy's activity during the load.
std::string Mode(const Json& report) {
  const std::string mode = report.value("mode", "");
  if (mode == "use") return ", loaded ahead by what an earlier start recorded";
  return mode == "record" ? ", recorded for the next start" : "";
}

std::string Head(const Json& report) {
  const Json& parts = report["parts"];
  return "start-up " + Fixed(PartOf(report, "total_s"), 1) + " s" +
         (parts.value("is_ready", false) ? "" : " (not ready when watching ended)") + ", " +
         HumanBytes(parts.value("bytes", uint64_t{0})) + " of the model read, " +
         HumanBytes(parts.value("missed", uint64_t{0})) + " not found in memory, " +
         std::to_string(parts.value("readers", 0)) + " reading processes" + Mode(report);
}

Json PhasesOf(const Json& report) { return report.value("phases", Json::array()); }

// "": the last phase has no end.
std::string TookSeconds(const Json& phase) {
  return phase.contains("took_ms") ? Fixed(phase.value("took_ms", 0.0) / 1000, 2) : "";
}

}  // namespace

Json ReportJson(const StartLog& log, const StartParts& parts, const Limit& limit) {
  Json progress = Json::array();
  for (const Progress& each : log.progress) {
    progress.push_back(
        {static_cast<double>(each.time_ns - log.begin_ns) / 1e9, each.bytes, each.missed});
  }
  return {{"schema", 1},
          {"parts",
           {{"init_s", parts.init_s},
            {"disk_s", parts.disk_s},
            {"user_s", parts.user_s},
            {"kernel_s", parts.kernel_s},
            {"no_cpu_s", parts.no_cpu_s},
            {"device_s", parts.device_s},
            {"unexplained_s", parts.unexplained_s},
            {"overlap_s", parts.overlap_s},
            {"total_s", parts.total_s},
            {"bytes", parts.bytes},
            {"missed", parts.missed},
            {"readers", parts.readers},
            {"is_ready", parts.is_ready}}},
          {"limit", {{"name", limit.name}, {"reason", limit.reason}, {"advice", limit.advice}}},
          {"samples", log.samples.size()},
          {"progress", progress}};
}

Json PhasesJson(const std::vector<std::pair<std::string, uint64_t>>& phases) {
  Json list = Json::array();
  for (size_t i = 0; i < phases.size(); ++i) {
    list.push_back({{"phase", phases[i].first}, {"ms", phases[i].second}});
    if (i + 1 < phases.size())
      list.back()["took_ms"] =
          phases[i + 1].second - std::min(phases[i].second, phases[i + 1].second);
  }
  return list;
}

std::string ReportText(const Json& report) {
  std::vector<std::vector<std::string>> rows;
  rows.reserve(kRows.size());
  for (const Row& row : kRows) {
    rows.push_back({std::string("  ") + row.name, Fixed(PartOf(report, row.key), 2) + " s",
                    Share(report, row.key)});
  }
  std::string phases;
  for (const Json& phase : PhasesOf(report)) {
    phases += (phases.empty() ? "phases: " : ", ") + phase.value("phase", "") + " at " +
              Fixed(phase.value("ms", 0.0) / 1000, 2) + " s";
    if (const std::string took = TookSeconds(phase); !took.empty()) phases += " (" + took + " s)";
  }
  if (!phases.empty()) phases += "\n";
  std::string guard = report.value("guard", "");
  if (!guard.empty()) guard = "guard: " + guard + "\n";
  return Head(report) + "\n" + Table(rows) + phases + guard +
         "limit: " + report["limit"].value("name", "") + ": " +
         report["limit"].value("reason", "") + "\n  " + report["limit"].value("advice", "") + "\n";
}

std::string ReportMarkdown(const Json& report) {
  std::string text = Head(report) + "\n\n| part | seconds | share |\n|---|---|---|\n";
  for (const Row& row : kRows) {
    text += std::string("| ") + row.name + " | " + Fixed(PartOf(report, row.key), 2) + " | " +
            Share(report, row.key) + " |\n";
  }
  std::string phases;
  for (const Json& phase : PhasesOf(report)) {
    phases += "| " + phase.value("phase", "") + " | " + Fixed(phase.value("ms", 0.0) / 1000, 2) +
              " | " + TookSeconds(phase) + " |\n";
  }
  if (!phases.empty()) text += "\n| phase | began, s | took, s |\n|---|---|---|\n" + phases;
  const std::string guard = report.value("guard", "");
  if (!guard.empty()) text += "\n**Guard:** " + guard + ".\n";
  return text + "\n**Limit: " + report["limit"].value("name", "") + ".** " +
         report["limit"].value("reason", "") + "; " + report["limit"].value("advice", "") + ".\n";
}

Json PageWords(const Json& report) {
  Json words = report;
  for (const char* key : {"service_id", "directory", "command", "guard"})
    words[key] = report.value(key, "");
  words["head"] = Head(report);
  words["rows"] = Json::array();
  for (const Row& row : kRows) {
    const double seconds = PartOf(report, row.key);
    words["rows"].push_back({{"key", row.key},
                             {"name", row.name},
                             {"s", seconds},
                             {"seconds", Fixed(seconds, 2)},
                             {"share", Share(report, row.key)}});
  }
  words["phase_rows"] = Json::array();
  for (const Json& phase : PhasesOf(report)) {
    words["phase_rows"].push_back({{"name", phase.value("phase", "")},
                                   {"began", Fixed(phase.value("ms", 0.0) / 1000, 2)},
                                   {"took", TookSeconds(phase)}});
  }
  return words;
}

}  // namespace ppc::ctl
