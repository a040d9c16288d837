// SPDX-License-Identifier: Apache-2.0
#include "sim/fuzz.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "daemon/base/files.h"
#include "daemon/base/unique_fd.h"

namespace ppc::sim {
namespace {

constexpr uint64_t kRunSeed = 1;  // ppc-sim's default, so that a scenario repeats the cell
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr unsigned kSlower = 10;  // slowdown by a sanitizer
#else
constexpr unsigned kSlower = 1;
#endif
constexpr rlim_t kMostCpuS = 20 * kSlower;  // a cell that takes longer counts as a hang
constexpr int kMostShrinkTries = 80;        // per harm

class Lots {
 public:
  Lots(uint64_t seed, uint64_t cell) : random_(seed * 1'000'003 + cell) {}
  bool InHundred(uint32_t chances) { return random_() % 100 < chances; }
  template <typename T>
  T Of(std::initializer_list<T> choices) {
    return choices.begin()[random_() % choices.size()];
  }
  uint64_t Below(uint64_t end) { return random_() % end; }

 private:
  std::mt19937_64 random_;
};

// CPU times as measured natively by tools/demo.
Json Machine(Lots* lots) {
  Json machine{{"nodes", 1},          {"fault_ns", 1000},
               {"map_page_ns", 20},   {"copy_page_ns", 400},
               {"read_page_ns", 500}, {"complete_page_ns", 250},
               {"request_ns", 12000}, {"observer", lots->InHundred(75)}};
  const auto [mbps, latency_us] = lots->Of<std::pair<int, int>>(
      {{300, 2000}, {300, 2000}, {300, 2000}, {1500, 200}, {7000, 100}, {200, 50000}});
  machine["mbps"] = mbps;
  machine["latency_us"] = latency_us;
  if (lots->InHundred(5)) machine["lost_events_in_100"] = lots->Of({1, 10, 50});
  return machine;
}

// Models of 64 to 256 MiB.
Json Folder(Lots* lots) {
  const auto [shards, mib] = lots->Of<std::pair<int, int>>(
      {{1, 64}, {1, 128}, {1, 256}, {2, 32}, {2, 64}, {4, 16}, {4, 32}, {8, 8}, {8, 16}});
  return {{"models", lots->Of({1, 1, 1, 2, 3, 6})},
          {"shards", shards},
          {"shard_mib", mib},
          {"is_flat", lots->InHundred(40)}};
}

Json ServiceOf(Lots* lots, int models) {
  Json service{{"workers", lots->Of({1, 1, 1, 2})},
               {"mode", lots->Of({"mmap", "mmap", "mmap", "read"})}};
  if (service["mode"] == "mmap" && lots->InHundred(30)) service["populates"] = true;
  if (lots->InHundred(20)) service["threads"] = lots->Of({2, 4});
  if (lots->InHundred(20)) service["order"] = "shuffled";
  if (lots->InHundred(60)) {
    service["serve_passes"] = lots->Of({1, 3, 6, 12});
    if (lots->InHundred(50)) service["serve_pause_s"] = lots->Of({0.05, 0.5, 2.0, 15.0});
    if (lots->InHundred(30)) service["serve_page_ns"] = lots->Of({2000, 20000});
  }
  if (lots->InHundred(10)) service["part"] = lots->Of({0.25, 0.5, 0.9});
  if (lots->InHundred(10)) {
    service["pause_at"] = lots->Of({0.1, 0.5, 0.9});
    service["pause_s"] = lots->Of({1.0, 12.0, 35.0});
  }
  if (lots->InHundred(5)) service["own_prefetch_threads"] = lots->Of({1, 4});
  if (models > 1 && lots->InHundred(50)) {
    service["reads"] = lots->Of<std::vector<int>>({{0, 1}, {0, 1, 0, 1}, {1}, {0, 0}});
  }
  return service;
}

Json NeighbourOf(Lots* lots) {
  Json one{{"way", lots->Of({"drops", "reads", "grows"})},
           {"every_s", lots->Of({0.1, 1.0})},
           {"mib", lots->Of({16, 64, 128})}};
  if (lots->InHundred(50)) one["after_s"] = lots->Of({0.5, 3.0});
  return one;
}

Json SystemOf(Lots* lots, const FuzzOptions& options) {
  Json system{{"hook_s", 0}};
  system["policy"] = !options.policy.empty()
                         ? options.policy
                         : lots->Of({"maio", "maio", "maio", "maio", "maio", "maio", "hostile",
                                     "hostile", "eager", "readahead"});
  if (system["policy"] == "hostile") {
    system["config"] = {{"way", lots->Of({"drops", "loads", "random", "silent"})}};
    return system;
  }
  if (system["policy"] != "maio") return system;
  if (lots->InHundred(70)) system["records_first"] = true;
  if (lots->InHundred(20)) system["starts_before"] = 1;
  if (lots->InHundred(60)) system["says_ready"] = false;
  if (lots->InHundred(40)) system["is_told"] = false;
  return system;
}

}  // namespace

Json FuzzCell(uint64_t seed, uint64_t cell, const FuzzOptions& options) {
  Lots lots(seed, cell);
  Json json{{"about", "harm " + std::to_string(seed) + "/" + std::to_string(cell)},
            {"margin_mib", 1},
            {"consumer", 4},
            {"machine", Machine(&lots)},
            {"folder", Folder(&lots)}};
  if (options.credit_mib != 128) json["credit_mib"] = options.credit_mib;
  const int models = json["folder"]["models"];
  json["service"] = ServiceOf(&lots, models);
  json["init_share"] = lots.Of({0.0, 0.0, 0.5, 2.0});
  if (lots.InHundred(65))
    json["limit_share"] = lots.Of({1.5, 1.2, 1.1, 1.05, 1.0, 0.95, 0.85, 0.7, 0.5, 0.4});
  Json& system = json["system"] = SystemOf(&lots, options);
  const bool is_recorded = system.value("records_first", false);
  // A wrong template: of another model, too long, or too short.
  if (is_recorded && models > 1 && lots.InHundred(30)) {
    json["record"] = {{"reads", lots.Of<std::vector<int>>({{1}, {0, 1}, {0, 1, 0}})}};
  } else if (is_recorded && lots.InHundred(10)) {
    json["record"] = {{"part", 0.5}};
  } else if (is_recorded && lots.InHundred(15)) {
    system["records_alike"] = true;
  }
  if (lots.InHundred(25)) json["neighbours"] = Json::array({NeighbourOf(&lots)});
  if (lots.InHundred(6)) {
    json["bad_disk"] = {{"kb", 64}, {"offset_mib", lots.Of({0, 4, 7})}, {"delay_s", 0.05}};
    if (lots.InHundred(30)) json["bad_disk"]["all_after_s"] = lots.Of({0.5, 2.0});
  } else if (lots.InHundred(8)) {
    system["fault"] = lots.Of({"runner_killed", "runner_stopped", "supervisor_killed"});
    system["dies_at"] = lots.Of({0.1, 0.5, 0.9});
    system["away_s"] = lots.Of({0.1, 2.0});
  }
  json["expect"] = {{"harm_time_ratio", {{"max", kMostTime}}},
                    {"harm_bytes_ratio", {{"max", kMostBytes}}}};
  return json;
}

// ------------------------------------------------------------------- a cell in a child

namespace {

// The child's answer: a whole Comparison, or a negative number and an error's text.
struct Answer {
  int error = 0;
  Comparison measured;
  char text[200] = "";
};

void RunInChild(const Json& json, uint64_t seed, int to) {
  const rlimit cpu{kMostCpuS, kMostCpuS};
  (void)setrlimit(RLIMIT_CPU, &cpu);
  (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
  const rlimit core{0, 0};
  (void)setrlimit(RLIMIT_CORE, &core);
  if (const int null = open("/dev/null", O_WRONLY | O_CLOEXEC); null >= 0) {
    dup2(null, STDOUT_FILENO);
    dup2(null, STDERR_FILENO);
  }
  Answer answer;
  const Result<Scenario> scenario = ParseScenario(json, "cell");
  const Result<Comparison> measured =
      scenario ? CompareWithNative(*scenario, seed) : Result<Comparison>(scenario.error());
  if (measured) {
    answer.measured = *measured;
  } else {
    answer.error = measured.error().code == 0 ? EIO : measured.error().code;
    std::snprintf(answer.text, sizeof(answer.text), "%s", measured.error().message.c_str());
  }
  (void)WriteAll(to, reinterpret_cast<const char*>(&answer), sizeof(answer));
}

bool ReadAnswer(int from, Answer* answer) {
  auto* const at = reinterpret_cast<char*>(answer);
  for (size_t got = 0; got < sizeof(*answer);) {
    const ssize_t part = read(from, at + got, sizeof(*answer) - got);
    if (part < 0 && errno == EINTR) continue;
    if (part <= 0) return false;
    got += static_cast<size_t>(part);
  }
  return true;
}

}  // namespace

Harm RunCell(const Json& scenario, uint64_t seed) {
  Harm harm;
  harm.scenario = scenario;
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return harm;
  const UniqueFd from(ends[0]);
  UniqueFd to(ends[1]);
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    RunInChild(scenario, seed, to.Get());
    _exit(0);  // no code of the policy may run after this
  }
  to.Reset();
  Answer answer;
  const bool has_answer = ReadAnswer(from.Get(), &answer);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  if (!has_answer) {
    const int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    harm.what = signal == SIGXCPU || signal == SIGKILL ? "hang" : "crash";
    harm.why = signal != 0 ? strsignal(signal) : "status " + std::to_string(status);
    return harm;
  }
  harm.measured = answer.measured;
  if (answer.error != 0) {
    harm.what = answer.error == ETIMEDOUT ? "endless" : "error";
    harm.why = answer.text;
  } else if (harm.measured.harm_bytes_ratio > kMostBytes) {
    harm.what = "bytes";
  } else if (harm.measured.harm_time_ratio > kMostTime) {
    harm.what = "time";
  }
  return harm;
}

// ------------------------------------------------------------------------- shrinking

namespace {

using Edit = std::function<bool(Json*)>;  // false: nothing left to make smaller

Edit Without(const char* part, const char* member) {
  return [part, member](Json* json) {
    Json& from = *part == '\0' ? *json : (*json)[part];
    return from.is_object() && from.erase(member) > 0;
  };
}

Edit To(const char* part, const char* member, const Json& value) {
  return [part, member, value](Json* json) {
    Json& of = *part == '\0' ? *json : (*json)[part];
    if (!of.is_object() || !of.contains(member) || of[member] == value) return false;
    of[member] = value;
    return true;
  };
}

Edit Half(const char* part, const char* member, int least) {
  return [part, member, least](Json* json) {
    Json& of = (*json)[part];
    if (!of.is_object() || !of.contains(member) || of[member].get<int>() / 2 < least) return false;
    of[member] = of[member].get<int>() / 2;
    return true;
  };
}

std::vector<Edit> Edits() {
  std::vector<Edit> edits{Without("", "neighbours"),
                          Without("", "bad_disk"),
                          [](Json* json) {
                            Json& system = (*json)["system"];
                            const bool had = system.erase("dies_at") > 0;
                            system.erase("fault");
                            system.erase("away_s");
                            return had;
                          },
                          Without("machine", "lost_events_in_100"),
                          Without("", "record"),
                          Without("system", "starts_before"),
                          Without("system", "records_alike"),
                          Without("system", "records_first"),
                          Without("", "limit_share"),
                          To("", "init_share", 0.0)};
  for (const char* member : {"populates", "threads", "order", "part", "pause_at", "pause_s",
                             "own_prefetch_threads", "serve_pause_s", "serve_page_ns", "reads"})
    edits.push_back(Without("service", member));
  edits.push_back(To("service", "workers", 1));
  edits.push_back(Without("service", "serve_passes"));
  edits.push_back(Half("service", "serve_passes", 1));
  edits.push_back(To("folder", "models", 1));
  edits.push_back(To("folder", "models", 2));
  edits.push_back(To("folder", "shards", 1));
  edits.push_back(Half("folder", "shards", 1));
  edits.push_back(Half("folder", "shard_mib", 8));
  edits.push_back(To("folder", "is_flat", false));
  edits.push_back(Without("system", "says_ready"));
  edits.push_back(Without("system", "is_told"));
  edits.push_back([](Json* json) {
    Json& machine = (*json)["machine"];
    if (machine["mbps"] == 300 && machine["latency_us"] == 2000) return false;
    machine["mbps"] = 300;
    machine["latency_us"] = 2000;
    return true;
  });
  return edits;
}

}  // namespace

Json ShrinkCell(Json scenario, const std::string& what, uint64_t seed) {
  const std::vector<Edit> edits = Edits();
  int tries = 0;
  for (bool is_smaller = true; is_smaller && tries < kMostShrinkTries;) {
    is_smaller = false;
    for (const Edit& edit : edits) {
      Json tried = scenario;
      if (tries >= kMostShrinkTries || !edit(&tried)) continue;
      ++tries;
      if (RunCell(tried, seed).what != what) continue;
      scenario = std::move(tried);
      is_smaller = true;
    }
  }
  return scenario;
}

FuzzResult Fuzz(const FuzzOptions& options, const std::function<void(const Harm&)>& tell) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  FuzzResult result;
  for (uint64_t i = 0; i < options.cells; ++i) {
    const std::chrono::duration<double> passed = Clock::now() - begin;
    if (options.minutes > 0 && passed.count() > options.minutes * 60) break;
    const uint64_t cell = options.first + i;
    Harm harm = RunCell(FuzzCell(options.seed, cell, options), kRunSeed);
    ++result.cells;
    if (harm.what.empty()) continue;
    ++result.harms;
    if (options.shrinks) {
      const std::string what = harm.what;
      const Json smaller = ShrinkCell(harm.scenario, what, kRunSeed);
      harm = RunCell(smaller, kRunSeed);
      harm.scenario = smaller;
    }
    harm.cell = cell;
    tell(harm);
  }
  return result;
}

}  // namespace ppc::sim
