// SPDX-License-Identifier: Apache-2.0
// ppc-sim: start-ups in simulated time, decided by the real runtime and policies.
// Threads: one.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "sim/experiment.h"
#include "sim/fuzz.h"
#include "tools/model/common/options.h"

namespace {

using namespace ppc;
using namespace ppc::sim;
using bench::Options;

int Fail(const Error& error) {
  (void)bench::Fail("ppc-sim", error);
  return 2;
}

constexpr char kUsage[] =
    "usage: ppc-sim run SCENARIO [--log FILE] [--seed N] [--csv FILE] [--json FILE]\n"
    "       ppc-sim all [DIRECTORY] [--seed N]\n"
    "       ppc-sim list [DIRECTORY]\n"
    "       ppc-sim fuzz [--seed N] [--cells N] [--minutes M] [--first N] [--policy NAME]\n"
    "               [--credit-mib N] [--out DIRECTORY] [--as-found]\n"
    "SCENARIO is a JSON file, or the name of a shipped one.  run prints what was measured and "
    "what\n"
    "was expected; --log replays what ppc-runner --record has written in place of the service;\n"
    "--csv writes the time series, --json everything.  all runs every scenario of a directory\n"
    "(default: the shipped ones).\n"
    "fuzz looks for harm: start-ups made at random from a seed, each natively and with a policy. "
    "A\n"
    "harm (time above 1.03 or bytes above 1.05 of native's, beyond the credit, 128 MiB) is made\n"
    "smaller unless --as-found says not to, and printed as a scenario, or written to --out.\n"
    "Policies are looked for in $PPC_POLICY_DIR, else where they are installed.\n"
    "Exit status: 0 no harm, or all expectations hold or are known not to, 1 one does not, 2 no "
    "run.\n";

std::string Shipped() {
  const char* set = std::getenv("PPC_SCENARIO_DIR");
  return set != nullptr ? set : PPC_SCENARIO_DIR;
}

std::string Bounds(const Expectation& e) {
  char text[64];
  if (std::isinf(e.min)) {
    std::snprintf(text, sizeof(text), "<= %.4g", e.max);
  } else if (std::isinf(e.max)) {
    std::snprintf(text, sizeof(text), ">= %.4g", e.min);
  } else {
    std::snprintf(text, sizeof(text), "%.4g..%.4g", e.min, e.max);
  }
  return text;
}

Json ToJson(const Scenario& scenario, const Outcome& outcome,
            const std::vector<Verdict>& verdicts) {
  Json json{
      {"scenario", scenario.name}, {"metrics", outcome.metrics}, {"measured", outcome.measured}};
  json["expected"] = Json::array();
  for (const Verdict& v : verdicts) {
    Json one{{"metric", v.metric}, {"got", v.got}, {"holds", v.holds}};
    if (!std::isinf(v.expected.min)) one["min"] = v.expected.min;
    if (!std::isinf(v.expected.max)) one["max"] = v.expected.max;
    json["expected"].push_back(std::move(one));
  }
  if (!scenario.known_short.empty()) json["known_short"] = scenario.known_short;
  json["series"] = Json::array();
  for (const Sample& s : outcome.series) {
    json["series"].push_back({{"t", s.t_s},
                              {"resident", s.resident},
                              {"disk_bytes", s.disk_bytes},
                              {"evicted", s.evicted},
                              {"reclaimed", s.reclaimed}});
  }
  if (!outcome.policy_status.is_null()) json["status"] = outcome.policy_status;
  return json;
}

bool WriteCsv(const std::string& path, const Outcome& outcome) {
  std::ofstream out(path);
  out << "t_s,resident_bytes,disk_bytes,evicted_bytes,reclaimed_bytes\n";
  for (const Sample& s : outcome.series) {
    out << s.t_s << ',' << s.resident << ',' << s.disk_bytes << ',' << s.evicted << ','
        << s.reclaimed << '\n';
  }
  return out.good();
}

int RunOne(const Options& options, const std::string& name, uint64_t seed) {
  const std::string path = std::filesystem::exists(name) ? name : Shipped() + "/" + name + ".json";
  Result<Scenario> scenario = ReadScenario(path);
  if (!scenario) return Fail(scenario.error());
  scenario->log = options.Text("log", scenario->log);
  const Result<Outcome> outcome = RunScenario(*scenario, seed);
  if (!outcome) return Fail(outcome.error());
  for (const auto* some : {&outcome->metrics, &outcome->measured})
    for (const auto& [metric, value] : *some) std::printf("%-22s %12.4f\n", metric.c_str(), value);
  const std::vector<Verdict> verdicts = Judge(*scenario, *outcome);
  bool good = true;
  for (const Verdict& v : verdicts) {
    good &= v.holds;
    std::printf("%s %s = %.4f, expected %s\n", v.holds ? "ok  " : "FAIL", v.metric.c_str(), v.got,
                Bounds(v.expected).c_str());
  }
  if (!scenario->known_short.empty()) {
    std::printf("known short: %s\n", scenario->known_short.c_str());
  }
  const std::string csv = options.Text("csv", "");
  if (!csv.empty() && !WriteCsv(csv, *outcome)) return Fail(Error{5, "cannot write " + csv});
  const std::string json = options.Text("json", "");
  if (!json.empty()) {
    std::ofstream out(json);
    out << ToJson(*scenario, *outcome, verdicts).dump(1) << "\n";
    if (!out.good()) return Fail(Error{5, "cannot write " + json});
  }
  return good || !scenario->known_short.empty() ? 0 : 1;
}

std::vector<std::string> ScenarioFiles(const std::string& directory) {
  std::vector<std::string> paths;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    if (entry.path().extension() == ".json") paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

// A row per scenario: start-up, load, ratio to the bound; then each expectation that matters.
int RunAll(const std::string& directory, uint64_t seed) {
  const std::vector<std::string> paths = ScenarioFiles(directory);
  if (paths.empty()) return Fail(Error{2, directory + " holds no scenario (*.json)"});
  std::printf("%-24s %9s %8s %8s %7s  %s\n", "scenario", "start-up", "load", "bound", "result",
              "expected, got");
  int failed = 0;
  int known = 0;
  const auto start = std::chrono::steady_clock::now();
  for (const std::string& path : paths) {
    const Result<Scenario> scenario = ReadScenario(path);
    if (!scenario) return Fail(scenario.error());
    const Result<Outcome> outcome = RunScenario(*scenario, seed);
    if (!outcome) return Fail(outcome.error());
    std::string text;
    bool good = true;
    for (const Verdict& v : Judge(*scenario, *outcome)) {
      char one[128];
      std::snprintf(one, sizeof(one), "%s%s %s: %.4g%s", text.empty() ? "" : "; ", v.metric.c_str(),
                    Bounds(v.expected).c_str(), v.got, v.holds ? "" : " !");
      text += one;
      good &= v.holds;
    }
    const bool is_known = !good && !scenario->known_short.empty();
    failed += !good && !is_known;
    known += is_known;
    auto metric = [&](const char* name) { return outcome->metrics.at(name); };
    std::printf("%-24s %9.2f %8.2f %8.2f %7s  %s\n", scenario->name.c_str(), metric("startup_s"),
                metric("load_s"), metric("bound_s"),
                good       ? "ok"
                : is_known ? "short"
                           : "FAIL",
                text.c_str());
    if (is_known) std::printf("%-24s   short: %s\n", "", scenario->known_short.c_str());
    if (good && !scenario->known_short.empty()) {
      std::printf("%-24s   no longer short: remove \"known_short\"\n", "");
    }
    std::fflush(stdout);
  }
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
  std::printf("%zu scenarios: %zu hold, %d known short, %d failed; %.1f s\n", paths.size(),
              paths.size() - static_cast<size_t>(failed + known), known, failed, wall.count());
  return failed == 0 ? 0 : 1;
}

void TellHarm(const Options& options, const CellResult& harm) {
  std::printf("harm %llu %s: time %.3f (%.3f beyond the credit), bytes %.3f (%.3f)%s%s\n",
              static_cast<unsigned long long>(harm.cell), harm.what.c_str(),
              harm.measured.time_ratio, harm.measured.harm_time_ratio, harm.measured.bytes_ratio,
              harm.measured.harm_bytes_ratio, harm.why.empty() ? "" : ": ", harm.why.c_str());
  const std::string out = options.Text("out", "");
  if (out.empty()) {
    std::printf("%s\n", harm.scenario.dump().c_str());
  } else {
    const std::string path =
        out + "/harm-" + options.Text("seed", "1") + "-" + std::to_string(harm.cell) + ".json";
    std::ofstream file(path);
    file << harm.scenario.dump(2) << "\n";
    std::printf("  %s%s\n", path.c_str(), file.good() ? "" : " cannot be written");
  }
  std::fflush(stdout);
}

int RunFuzz(const Options& options, uint64_t seed) {
  FuzzOptions fuzz;
  fuzz.seed = seed;
  fuzz.policy = options.Text("policy", "");
  fuzz.shrinks = !options.Has("as-found");
  const Result<uint64_t> cells = options.Number("cells", fuzz.cells);
  const Result<uint64_t> first = options.Number("first", fuzz.first);
  const Result<uint64_t> credit = options.Number("credit-mib", fuzz.credit_mib);
  const Result<double> minutes = options.Real("minutes", fuzz.minutes);
  for (const auto* number : {&cells, &first, &credit})
    if (!number->ok()) return Fail(number->error());
  if (!minutes.ok()) return Fail(minutes.error());
  fuzz.cells = *cells;
  fuzz.first = *first;
  fuzz.credit_mib = *credit;
  fuzz.minutes = *minutes;
  const auto start = std::chrono::steady_clock::now();
  const FuzzResult result = Fuzz(fuzz, [&](const CellResult& harm) { TellHarm(options, harm); });
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
  std::printf("%llu cells, %llu harms; %.1f s\n", static_cast<unsigned long long>(result.cells),
              static_cast<unsigned long long>(result.harms), wall.count());
  return result.harms == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const Result<Options> options = Options::Parse(
      argc, argv,
      {"log", "seed", "csv", "json", "cells", "minutes", "first", "policy", "credit-mib", "out"},
      {"help", "as-found"});
  if (!options.ok()) return Fail(options.error());
  const std::vector<std::string>& words = options->words();
  if (options->Has("help") || words.empty()) {
    std::fputs(kUsage, options->Has("help") ? stdout : stderr);
    return options->Has("help") ? 0 : 2;
  }
  const Result<uint64_t> seed = options->Number("seed", 1);
  if (!seed.ok()) return Fail(seed.error());
  const std::string directory = words.size() > 1 ? words[1] : Shipped();
  if (words[0] == "run" && words.size() == 2) return RunOne(*options, words[1], *seed);
  if (words[0] == "all" && words.size() <= 2) return RunAll(directory, *seed);
  if (words[0] == "fuzz" && words.size() == 1) return RunFuzz(*options, *seed);
  if (words[0] == "list" && words.size() <= 2) {
    for (const std::string& path : ScenarioFiles(directory)) {
      const Result<Scenario> scenario = ReadScenario(path);
      if (!scenario) return Fail(scenario.error());
      std::printf("%-24s %s\n", scenario->name.c_str(), scenario->about.c_str());
    }
    return 0;
  }
  std::fputs(kUsage, stderr);
  return 2;
}
