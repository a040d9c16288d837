// SPDX-License-Identifier: Apache-2.0
// ppc-policy-test: runs a policy library over modelled and recorded start-ups with the real
// runtime, and reports the rules of the ABI that it breaks.
// Threads: one; each start-up in a process of its own, since the policy may crash or hang.
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "daemon/base/files.h"
#include "daemon/base/unique_fd.h"
#include "daemon/policy/plugin.h"
#include "sim/experiment.h"
#include "sim/policy_test_options.h"
#include "sim/replay/event_log.h"

namespace {

using namespace ppc;
using namespace ppc::sim;
namespace fs = std::filesystem;

// Hooks run in real time; a longer one would cost the policy its place on a real machine.
constexpr uint64_t kSlowHookUs = 1'000'000;
constexpr int kHangsAfterMs = 120'000;
// Above these shares a policy works, but hardly as intended.
constexpr double kMuchAgain = 0.05;
constexpr double kMuchUnused = 0.05;

struct Trace {
  std::string name;
  Json scenario;
};
constexpr const char* kObserver = R"({"machine": {"observer": true, "nodes": 1}})";
constexpr std::array<std::pair<const char*, const char*>, 8> kModelled = {{
    {"read", R"({"scale": 128, "service": {"mode": "read"}})"},
    {"map", R"({"scale": 128})"},
    {"limit", R"({"scale": 64, "limit_share": 0.45})"},
    {"again", R"({"scale": 128, "system": {"again": 1}})"},
    {"two-services", R"({"scale": 128, "others": [{"after_s": 1}]})"},
    {"stranger", R"({"scale": 128, "strangers": [{"way": "touch", "after_s": 1}]})"},
    {"observer-read",
     R"({"scale": 128, "machine": {"observer": true, "nodes": 1}, "service": {"mode": "read"}})"},
    {"observer-limit",
     R"({"scale": 64, "machine": {"observer": true, "nodes": 1}, "limit_share": 0.45})"},
}};

Trace Recorded(const fs::path& log) {
  Trace trace{log.stem(), Json::parse(kObserver)};
  trace.scenario["log"] = log.string();
  return trace;
}

// Recorded logs shipped with this program: of the installation, or of the build.
Result<std::vector<Trace>> ShippedLogs() {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  const fs::path directory = (self.parent_path() / PPC_TRACES_BESIDE).lexically_normal();
  std::vector<Trace> traces;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    if (entry.path().extension() == ".ppclog") traces.push_back(Recorded(entry.path()));
  }
  if (traces.empty()) {
    return Error{ENOENT, directory.string() +
                             " holds no recorded log (*.ppclog), which are installed with "
                             "ppc-policy-test: install it again"};
  }
  std::ranges::sort(traces, {}, &Trace::name);
  return traces;
}

Result<std::vector<Trace>> TracesFor(const std::string& log, const std::string& only) {
  if (!log.empty()) {
    if (const Result<EventLog> read = ReadEventLog(log); !read) return read.error();
    return std::vector{Recorded(fs::absolute(log))};
  }
  Result<std::vector<Trace>> shipped = ShippedLogs();
  if (!shipped) return shipped;
  std::vector<Trace> traces;
  std::string names;
  for (const auto& [name, scenario] : kModelled) traces.push_back({name, Json::parse(scenario)});
  traces.insert(traces.end(), shipped->begin(), shipped->end());
  for (const Trace& trace : traces) names += (names.empty() ? "" : ", ") + trace.name;
  if (!only.empty()) std::erase_if(traces, [&](const Trace& trace) { return trace.name != only; });
  if (!traces.empty()) return traces;
  return Error{EINVAL, "--only " + only + ": there is no such start-up; there are " + names};
}

int Fail(const Error& error) {
  std::fprintf(stderr, "ppc-policy-test: %s\n", error.message.c_str());
  return 2;
}

Result<Outcome> RunTrace(const Trace& trace, const std::string& policy, const Json& config) {
  Json json = trace.scenario;
  json["system"]["policy"] = policy;
  json["system"]["config"] = config;
  json["expect"] = {{"native_startup_ratio", {{"max", 1e9}}}};  // for a native run
  Result<Scenario> scenario = ParseScenario(json, trace.name);
  if (!scenario) return scenario.error();
  return RunScenario(*scenario, /*seed=*/1);
}

// In the child: writes the outcome, or the error, as one JSON object.
void Tell(const Trace& trace, const std::string& policy, const Json& config, int to) {
  const Result<Outcome> outcome = RunTrace(trace, policy, config);
  Json told;
  if (outcome) {
    told = {{"metrics", outcome->metrics}, {"status", outcome->policy_status}};
  } else {
    told = {{"error", outcome.error().message}};
  }
  const std::string text = told.dump();
  (void)WriteAll(to, text.data(), text.size());
}

struct Heard {
  std::string text;
  bool has_hung = false;
};

// Reads until end of file.
Heard Listen(int from) {
  Heard heard;
  std::array<char, 65536> part{};
  pollfd waits{from, POLLIN, 0};
  for (;;) {
    const int ready = poll(&waits, 1, kHangsAfterMs);
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) {
      heard.has_hung = true;
      return heard;
    }
    const ssize_t got = read(from, part.data(), part.size());
    if (got <= 0) return heard;
    heard.text.append(part.data(), static_cast<size_t>(got));
  }
}

// The broken rules, "" = none.
std::string Broken(const Json& status) {
  std::string broken;
  const auto say = [&broken](const std::string& what) {
    broken += (broken.empty() ? "" : "; ") + what;
  };
  const Json events = status.value("events", Json::object());
  const Json refused = events.value("refused", Json::object());
  for (const auto& [kind, count] : refused.items()) {
    if (kind == "empty" || count == 0) continue;
    say(DumpJson(count) + " ranges refused (" + kind + ")");
  }
  const Json hooks = status.value("hooks", Json::object());
  for (const auto& [hook, stats] : hooks.items()) {
    if (const uint64_t slowest = stats.value("max_us", uint64_t{0}); slowest > kSlowHookUs) {
      say(hook + " took " + std::to_string(slowest / 1000) + " ms");
    }
  }
  if (status.value("faults", uint64_t{0}) > 0) say(status.value("last_fault", "a hook failed"));
  return broken;
}

// A summary of the run, and remarks for the policy's author.
std::string Did(const Json& told) {
  const Json& status = told["status"];
  const Json& metrics = told["metrics"];
  const Json events = status.value("events", Json::object());
  std::string slowest = "none";
  uint64_t slowest_us = 0;
  const Json hooks = status.value("hooks", Json::object());
  for (const auto& [hook, stats] : hooks.items()) {
    if (stats.value("max_us", uint64_t{0}) <= slowest_us) continue;
    slowest_us = stats.value("max_us", uint64_t{0});
    slowest = hook;
  }
  std::array<char, 320> text{};
  std::snprintf(
      text.data(), text.size(),
      "%llu events, %llu ranges to load, %llu to drop; start-up %.2f of the kernel's own; "
      "slowest hook %s, %llu us",
      events.value("events", 0ULL), events.value("prefetch_ranges", 0ULL),
      events.value("evict_ranges", 0ULL), metrics.value("native_startup_ratio", 0.0),
      slowest.c_str(), static_cast<unsigned long long>(slowest_us));
  std::string did = text.data();
  if (metrics.value("reread_share", 0.0) > kMuchAgain) {
    did += "; note: " + std::to_string(std::lround(100 * metrics.value("reread_share", 0.0))) +
           "% of the model were read again after they had been dropped";
  }
  if (metrics.value("unused_share", 0.0) > kMuchUnused) {
    did += "; note: " + std::to_string(std::lround(100 * metrics.value("unused_share", 0.0))) +
           "% of the model were loaded and never read";
  }
  return did;
}

bool Test(const Trace& trace, const std::string& policy, const Json& config, bool is_verbose) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) return false;
  const UniqueFd from(ends[0]);
  UniqueFd to(ends[1]);
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    if (!is_verbose) (void)!freopen("/dev/null", "w", stderr);
    Tell(trace, policy, config, to.Get());
    _exit(0);  // no code of the policy may run after this
  }
  to.Reset();
  const Heard heard = Listen(from.Get());
  if (heard.has_hung) kill(child, SIGKILL);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  std::string why;
  Json told;
  if (heard.has_hung) {
    why = "a hook hangs";
  } else if (WIFSIGNALED(status)) {
    why = std::string("it crashed: ") + strsignal(WTERMSIG(status));
  } else if (told = Json::parse(heard.text, nullptr, false); !told.is_object()) {
    why = "it ended the process with status " + std::to_string(WEXITSTATUS(status));
  } else if (told.contains("error")) {
    why = told.value("error", "");
  } else {
    why = Broken(told["status"]);
  }
  if (why.empty()) {
    std::printf("ok %s - %s\n", trace.name.c_str(), Did(told).c_str());
  } else {
    std::printf("not ok %s - %s\n", trace.name.c_str(), why.c_str());
  }
  return why.empty();
}

Result<Json> ReadConfig(const std::string& text) {
  if (text.empty()) return Json(Json::object());
  std::string json = text;
  if (text[0] == '@') {
    const Result<std::string> file = ReadFile(text.substr(1));
    if (!file) return file.error();
    json = *file;
  }
  Result<Json> config = ParseJson(json, "--config");
  if (config && !config->is_object()) return Error{EINVAL, "--config is not a JSON object"};
  return config;
}

// Lists the hooks: "ppc_prefetch ppc_evict".
std::string Hooks(const ppc_operation& table) {
  std::string hooks;
  const auto say = [&hooks](const char* name, bool has) {
    if (has) hooks += std::string(hooks.empty() ? "" : " ") + name;
  };
  say("ppc_init", table.ppc_init != nullptr);
  say("ppc_exit", table.ppc_exit != nullptr);
  say("ppc_prefetch", table.ppc_prefetch != nullptr);
  say("ppc_evict", table.ppc_evict != nullptr);
  return hooks.empty() ? "none of the four" : hooks;
}

int Main(const cli::Args& args) {
  const Result<Json> config = ReadConfig(args.Get("--config"));
  if (!config) return Fail(config.error());
  const Result<std::vector<Trace>> traces = TracesFor(args.Get("--log"), args.Get("--only"));
  if (!traces) return Fail(traces.error());
  std::array<char, PATH_MAX> real{};
  if (realpath(args.operands[0].c_str(), real.data()) == nullptr) {
    return Fail(PosixError(args.operands[0], errno));
  }
  const std::string policy = real.data();
  const Result<std::unique_ptr<Plugin>> plugin =
      Plugin::Open(policy, PluginOptions{.allow_any_owner = true});
  if (!plugin) return Fail(plugin.error());
  std::printf("# %s: hooks %s\n", (*plugin)->Name().c_str(), Hooks((*plugin)->table()).c_str());
  int failed = 0;
  for (const Trace& trace : *traces) {
    failed += Test(trace, policy, *config, args.Has("--verbose")) ? 0 : 1;
  }
  std::printf("%d ok, %d not ok\n", static_cast<int>(traces->size()) - failed, failed);
  return failed == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::span<char* const> arguments(argv, static_cast<size_t>(argc));
  const Result<cli::Parsed> parsed = cli::Parse(PolicyTestProgram(), arguments.subspan(1));
  if (!parsed) return Fail(parsed.error());
  if (parsed->verb != nullptr) return Main(parsed->args);
  std::fputs(parsed->text.c_str(), stdout);
  return 0;
}
