// SPDX-License-Identifier: Apache-2.0
#include "sim/fuzz.h"

#include <fcntl.h>
#include <malloc.h>
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
constexpr unsigned kSanitizerFactor = 10;  // slowdown by a sanitizer
#else
constexpr unsigned kSanitizerFactor = 1;
#endif
constexpr rlim_t kMaxCpuS = 20 * kSanitizerFactor;  // a cell that takes longer counts as a hang
constexpr int kMaxShrinkTries = 80;                 // per harm

class Random {
 public:
  Random(uint64_t seed, uint64_t cell) : engine_(seed * 1'000'003 + cell) {}
  bool Chance(uint32_t percent) { return engine_() % 100 < percent; }
  template <typename T>
  T OneOf(std::initializer_list<T> choices) {
    return choices.begin()[engine_() % choices.size()];
  }
  uint64_t Below(uint64_t end) { return engine_() % end; }

 private:
  std::mt19937_64 engine_;
};

// CPU times as measured natively by tools/demo.
Json Machine(Random* random) {
  Json machine{{"nodes", 1},          {"fault_ns", 1000},
               {"map_page_ns", 20},   {"copy_page_ns", 400},
               {"read_page_ns", 500}, {"complete_page_ns", 250},
               {"request_ns", 12000}, {"observer", random->Chance(75)}};
  const auto [mbps, latency_us] = random->OneOf<std::pair<int, int>>(
      {{300, 2000}, {300, 2000}, {300, 2000}, {1500, 200}, {7000, 100}, {200, 50000}});
  machine["mbps"] = mbps;
  machine["latency_us"] = latency_us;
  if (random->Chance(5)) machine["lost_events_in_100"] = random->OneOf({1, 10, 50});
  return machine;
}

// Models of 64 to 256 MiB.
Json Folder(Random* random) {
  const auto [shards, mib] = random->OneOf<std::pair<int, int>>(
      {{1, 64}, {1, 128}, {1, 256}, {2, 32}, {2, 64}, {4, 16}, {4, 32}, {8, 8}, {8, 16}});
  return {{"models", random->OneOf({1, 1, 1, 2, 3, 6})},
          {"shards", shards},
          {"shard_mib", mib},
          {"is_flat", random->Chance(40)}};
}

Json ServiceOf(Random* random, int models) {
  Json service{{"workers", random->OneOf({1, 1, 1, 2})},
               {"mode", random->OneOf({"mmap", "mmap", "mmap", "read"})}};
  if (service["mode"] == "mmap" && random->Chance(30)) service["populates"] = true;
  if (random->Chance(20)) service["threads"] = random->OneOf({2, 4});
  if (random->Chance(20)) service["order"] = "shuffled";
  if (random->Chance(60)) {
    service["serve_passes"] = random->OneOf({1, 3, 6, 12});
    if (random->Chance(50)) service["serve_pause_s"] = random->OneOf({0.05, 0.5, 2.0, 15.0});
    if (random->Chance(30)) service["serve_page_ns"] = random->OneOf({2000, 20000});
  }
  if (random->Chance(10)) service["part"] = random->OneOf({0.25, 0.5, 0.9});
  if (random->Chance(10)) {
    service["pause_at"] = random->OneOf({0.1, 0.5, 0.9});
    service["pause_s"] = random->OneOf({1.0, 12.0, 35.0});
  }
  if (random->Chance(5)) service["own_prefetch_threads"] = random->OneOf({1, 4});
  if (models > 1 && random->Chance(50)) {
    service["reads"] = random->OneOf<std::vector<int>>({{0, 1}, {0, 1, 0, 1}, {1}, {0, 0}});
  }
  return service;
}

Json NeighbourOf(Random* random) {
  Json one{{"way", random->OneOf({"drops", "reads", "grows"})},
           {"every_s", random->OneOf({0.1, 1.0})},
           {"mib", random->OneOf({16, 64, 128})}};
  if (random->Chance(50)) one["after_s"] = random->OneOf({0.5, 3.0});
  return one;
}

Json SystemOf(Random* random, const FuzzOptions& options) {
  Json system{{"hook_s", 0}};
  system["policy"] = !options.policy.empty()
                         ? options.policy
                         : random->OneOf({"maio", "maio", "maio", "maio", "maio", "maio", "hostile",
                                          "hostile", "eager", "readahead"});
  if (system["policy"] == "hostile") {
    system["config"] = {{"way", random->OneOf({"drops", "loads", "random", "silent"})}};
    return system;
  }
  if (system["policy"] != "maio") return system;
  if (random->Chance(70)) system["records_first"] = true;
  if (random->Chance(20)) system["starts_before"] = 1;
  if (random->Chance(60)) system["says_ready"] = false;
  if (random->Chance(40)) system["is_told"] = false;
  return system;
}

}  // namespace

Json FuzzCell(uint64_t seed, uint64_t cell, const FuzzOptions& options) {
  Random random(seed, cell);
  Json json{{"about", "harm " + std::to_string(seed) + "/" + std::to_string(cell)},
            {"margin_mib", 1},
            {"consumer", 4},
            {"machine", Machine(&random)},
            {"folder", Folder(&random)}};
  if (options.credit_mib != 128) json["credit_mib"] = options.credit_mib;
  const int models = json["folder"]["models"];
  json["service"] = ServiceOf(&random, models);
  json["init_share"] = random.OneOf({0.0, 0.0, 0.5, 2.0});
  if (random.Chance(65))
    json["limit_share"] = random.OneOf({1.5, 1.2, 1.1, 1.05, 1.0, 0.95, 0.85, 0.7, 0.5, 0.4});
  Json& system = json["system"] = SystemOf(&random, options);
  const bool is_recorded = system.value("records_first", false);
  // A wrong template: of another model, too long, or too short.
  if (is_recorded && models > 1 && random.Chance(30)) {
    json["record"] = {{"reads", random.OneOf<std::vector<int>>({{1}, {0, 1}, {0, 1, 0}})}};
  } else if (is_recorded && random.Chance(10)) {
    json["record"] = {{"part", 0.5}};
  } else if (is_recorded && random.Chance(15)) {
    system["records_alike"] = true;
  }
  if (random.Chance(25)) json["neighbours"] = Json::array({NeighbourOf(&random)});
  if (random.Chance(6)) {
    json["bad_disk"] = {{"kb", 64}, {"offset_mib", random.OneOf({0, 4, 7})}, {"delay_s", 0.05}};
    if (random.Chance(30)) json["bad_disk"]["all_after_s"] = random.OneOf({0.5, 2.0});
  } else if (random.Chance(8)) {
    system["fault"] = random.OneOf({"runner_killed", "runner_stopped", "supervisor_killed"});
    system["dies_at"] = random.OneOf({0.1, 0.5, 0.9});
    system["away_s"] = random.OneOf({0.1, 2.0});
  }
  json["expect"] = {{"harm_time_ratio", {{"max", kMaxTimeRatio}}},
                    {"harm_bytes_ratio", {{"max", kMaxBytesRatio}}}};
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
  const rlimit cpu{kMaxCpuS, kMaxCpuS};
  (void)setrlimit(RLIMIT_CPU, &cpu);
  (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The start-ups of a cell use the same memory one after the other.
  (void)mallopt(M_MMAP_THRESHOLD, 32 << 20);
  (void)mallopt(M_TRIM_THRESHOLD, 1 << 30);
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

CellResult RunCell(const Json& scenario, uint64_t seed) {
  CellResult result;
  result.scenario = scenario;
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return result;
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
    result.what = signal == SIGXCPU || signal == SIGKILL ? "hang" : "crash";
    result.why = signal != 0 ? strsignal(signal) : "status " + std::to_string(status);
    return result;
  }
  result.measured = answer.measured;
  if (answer.error != 0) {
    result.what = answer.error == ETIMEDOUT ? "endless" : "error";
    result.why = answer.text;
  } else if (result.measured.harm_bytes_ratio > kMaxBytesRatio) {
    result.what = "bytes";
  } else if (result.measured.harm_time_ratio > kMaxTimeRatio) {
    result.what = "time";
  }
  return result;
}

// ------------------------------------------------------------------------- shrinking

namespace {

using Edit = std::function<bool(Json*)>;  // false: nothing left to make smaller

Edit Remove(const char* part, const char* member) {
  return [part, member](Json* json) {
    Json& from = *part == '\0' ? *json : (*json)[part];
    return from.is_object() && from.erase(member) > 0;
  };
}

Edit Set(const char* part, const char* member, const Json& value) {
  return [part, member, value](Json* json) {
    Json& of = *part == '\0' ? *json : (*json)[part];
    if (!of.is_object() || !of.contains(member) || of[member] == value) return false;
    of[member] = value;
    return true;
  };
}

Edit Halve(const char* part, const char* member, int least) {
  return [part, member, least](Json* json) {
    Json& of = (*json)[part];
    if (!of.is_object() || !of.contains(member) || of[member].get<int>() / 2 < least) return false;
    of[member] = of[member].get<int>() / 2;
    return true;
  };
}

std::vector<Edit> Edits() {
  std::vector<Edit> edits{Remove("", "neighbours"),
                          Remove("", "bad_disk"),
                          [](Json* json) {
                            Json& system = (*json)["system"];
                            const bool had = system.erase("dies_at") > 0;
                            system.erase("fault");
                            system.erase("away_s");
                            return had;
                          },
                          Remove("machine", "lost_events_in_100"),
                          Remove("", "record"),
                          Remove("system", "starts_before"),
                          Remove("system", "records_alike"),
                          Remove("system", "records_first"),
                          Remove("", "limit_share"),
                          Set("", "init_share", 0.0)};
  for (const char* member : {"populates", "threads", "order", "part", "pause_at", "pause_s",
                             "own_prefetch_threads", "serve_pause_s", "serve_page_ns", "reads"})
    edits.push_back(Remove("service", member));
  edits.push_back(Set("service", "workers", 1));
  edits.push_back(Remove("service", "serve_passes"));
  edits.push_back(Halve("service", "serve_passes", 1));
  edits.push_back(Set("folder", "models", 1));
  edits.push_back(Set("folder", "models", 2));
  edits.push_back(Set("folder", "shards", 1));
  edits.push_back(Halve("folder", "shards", 1));
  edits.push_back(Halve("folder", "shard_mib", 8));
  edits.push_back(Set("folder", "is_flat", false));
  edits.push_back(Remove("system", "says_ready"));
  edits.push_back(Remove("system", "is_told"));
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
  for (bool is_smaller = true; is_smaller && tries < kMaxShrinkTries;) {
    is_smaller = false;
    for (const Edit& edit : edits) {
      Json tried = scenario;
      if (tries >= kMaxShrinkTries || !edit(&tried)) continue;
      ++tries;
      if (RunCell(tried, seed).what != what) continue;
      scenario = std::move(tried);
      is_smaller = true;
    }
  }
  return scenario;
}

FuzzResult Fuzz(const FuzzOptions& options, const std::function<void(const CellResult&)>& tell) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  FuzzResult totals;
  for (uint64_t i = 0; i < options.cells; ++i) {
    const std::chrono::duration<double> passed = Clock::now() - begin;
    if (options.minutes > 0 && passed.count() > options.minutes * 60) break;
    const uint64_t cell = options.first + i;
    CellResult harm = RunCell(FuzzCell(options.seed, cell, options), kRunSeed);
    ++totals.cells;
    if (harm.what.empty()) continue;
    ++totals.harms;
    if (options.shrinks) {
      const std::string what = harm.what;
      const Json smaller = ShrinkCell(harm.scenario, what, kRunSeed);
      harm = RunCell(smaller, kRunSeed);
      harm.scenario = smaller;
    }
    harm.cell = cell;
    tell(harm);
  }
  return totals;
}

}  // namespace ppc::sim
