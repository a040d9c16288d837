// SPDX-License-Identifier: Apache-2.0
// A report for people and for programs.
#include <algorithm>
#include <array>
#include <cstdio>

#include "tools/ppcctl/report/parts.h"
#include "tools/ppcctl/text.h"

namespace ppc::ctl {
namespace {

struct Row {
  const char* key;
  const char* name;
  const char* colour;
};
constexpr std::array kRows = {
    Row{"init_s", "before the model is read", "#8da0b3"},
    Row{"disk_s", "waiting for the disk", "#c8553d"},
    Row{"device_s", "asleep: the device, a timer, others", "#588b8b"},
    Row{"kernel_s", "in the kernel: faults, copying", "#f2b134"},
    Row{"user_s", "the programs' own work", "#6b4e71"},
    Row{"no_cpu_s", "work and no CPU", "#2f4858"},
    Row{"unexplained_s", "unexplained", "#d9d9d2"},
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

// What the policy did meanwhile.
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

std::string Escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

Json PhasesOf(const Json& report) { return report.value("phases", Json::array()); }

std::string TookText(const Json& phase) {
  if (!phase.contains("took_ms")) return "";
  return " (" + Fixed(phase.value("took_ms", 0.0) / 1000, 2) + " s)";
}

// How far the readers were, over time.
std::string Curve(const Json& report, double left, double top, double width, double height) {
  const double total = PartOf(report, "total_s");
  const double bytes = report["parts"].value("bytes", 0.0);
  if (total <= 0 || bytes <= 0) return "";
  std::string points;
  for (const Json& point : report["progress"]) {
    points += Fixed(left + width * point[0].get<double>() / total, 1) + "," +
              Fixed(top + height - height * point[1].get<double>() / bytes, 1) + " ";
  }
  return "<polyline fill=\"none\" stroke=\"#1b3a4b\" stroke-width=\"2\" points=\"" + points +
         "\"/>";
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
  for (const Row& row : kRows) {
    rows.push_back({std::string("  ") + row.name, Fixed(PartOf(report, row.key), 2) + " s",
                    Share(report, row.key)});
  }
  std::string phases;
  for (const Json& phase : PhasesOf(report)) {
    phases += (phases.empty() ? "phases: " : ", ") + phase.value("phase", "") + " at " +
              Fixed(phase.value("ms", 0.0) / 1000, 2) + " s" + TookText(phase);
  }
  if (!phases.empty()) phases += "\n";
  return Head(report) + "\n" + Table(rows) + phases +
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
    phases +=
        "| " + phase.value("phase", "") + " | " + Fixed(phase.value("ms", 0.0) / 1000, 2) + " | " +
        (phase.contains("took_ms") ? Fixed(phase.value("took_ms", 0.0) / 1000, 2) : "") + " |\n";
  }
  if (!phases.empty()) text += "\n| phase | began, s | took, s |\n|---|---|---|\n" + phases;
  return text + "\n**Limit: " + report["limit"].value("name", "") + ".** " +
         report["limit"].value("reason", "") + "; " + report["limit"].value("advice", "") + ".\n";
}

std::string ReportPage(const Json& report) {
  constexpr double kWidth = 720;
  const double total = PartOf(report, "total_s");
  std::string bars;
  std::string legend;
  double at = 0;
  for (const Row& row : kRows) {
    const double wide = total > 0 ? kWidth * PartOf(report, row.key) / total : 0;
    bars += "<rect x=\"" + Fixed(at, 1) + "\" y=\"0\" width=\"" + Fixed(wide, 1) +
            "\" height=\"40\" fill=\"" + row.colour + "\"><title>" + row.name + ": " +
            Fixed(PartOf(report, row.key), 2) + " s</title></rect>";
    legend += std::string("<tr><td><span style=\"background:") + row.colour +
              "\"></span></td><td>" + row.name + "</td><td>" + Fixed(PartOf(report, row.key), 2) +
              " s</td><td>" + Share(report, row.key) + "</td></tr>";
    at += wide;
  }
  std::string phases;
  for (const Json& phase : PhasesOf(report)) {
    phases += "<tr><td></td><td>" + Escaped(phase.value("phase", "")) + "</td><td>at " +
              Fixed(phase.value("ms", 0.0) / 1000, 2) + " s</td><td>" + TookText(phase) +
              "</td></tr>";
  }
  if (!phases.empty())
    legend += "<tr><td></td><td><b>phases</b></td><td></td><td></td></tr>" + phases;
  const std::string title =
      Escaped(report.value("service_id", "") + " in " + report.value("directory", ""));
  return "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Start-up of " + title +
         "</title><style>body{font:16px/1.5 sans-serif;max-width:760px;margin:2em auto;color:#222}"
         "td{padding:.1em .8em .1em 0}td span{display:inline-block;width:1em;height:1em}"
         "code{background:#eee;padding:.1em .3em}</style><h1>Start-up of " +
         title + "</h1><p><code>" + Escaped(report.value("command", "")) + "</code></p><p>" +
         Escaped(Head(report)) + "</p><svg viewBox=\"0 0 720 40\" width=\"720\" height=\"40\">" +
         bars + "</svg><table>" + legend +
         "</table><p><b>Limit: " + Escaped(report["limit"].value("name", "")) + ".</b> " +
         Escaped(report["limit"].value("reason", "")) + "; " +
         Escaped(report["limit"].value("advice", "")) +
         ".</p><h2>How far the readers were</h2><svg viewBox=\"0 0 720 240\" width=\"720\" "
         "height=\"240\"><rect x=\"0\" y=\"0\" width=\"720\" height=\"220\" fill=\"#f5f5f2\"/>" +
         Curve(report, 0, 0, kWidth, 220) +
         "<text x=\"0\" y=\"236\" font-size=\"12\">0 s</text><text x=\"720\" y=\"236\" "
         "font-size=\"12\" text-anchor=\"end\">" +
         Fixed(total, 1) + " s, " + HumanBytes(report["parts"].value("bytes", uint64_t{0})) +
         "</text></svg></html>\n";
}

}  // namespace ppc::ctl
