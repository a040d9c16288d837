// SPDX-License-Identifier: Apache-2.0
// ppcctl top, events: one look after another.
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <utility>
#include <vector>

#include "daemon/base/clock.h"
#include "extras/watch/service_view.h"
#include "tools/ppcctl/extra.h"
#include "tools/ppcctl/output.h"
#include "tools/ppcctl/program_options.h"
#include "tools/ppcctl/spec.h"
#include "tools/ppcctl/text.h"

namespace ppc::ctl {
namespace {

constexpr double kUsualInterval = 2;
constexpr unsigned kLookTimeoutMs = 5000;
constexpr const char* kClearScreen = "\033[H\033[J";

struct Repetition {
  unsigned interval_ms = 0;
  uint64_t count = 0;  // 0 = until interrupted
};

Result<Repetition> ReadRepetition(const Args& args) {
  Repetition repetition{static_cast<unsigned>(kUsualInterval * 1000), 0};
  if (args.Has("--interval")) {
    const Result<unsigned> ms = ReadSeconds("--interval", args.Get("--interval"));
    if (!ms) return ms.error();
    repetition.interval_ms = *ms;
  }
  if (args.Has("--count")) {
    const Result<int64_t> count = ReadWhole("--count", args.Get("--count"), 1);
    if (!count) return count.error();
    repetition.count = static_cast<uint64_t>(*count);
  }
  return repetition;
}

std::string Percent(double share) {
  return share < 0 ? "-" : std::to_string(static_cast<int>(share * 100)) + "%";
}

// Services whose readers stand still have bytes, and no seconds.
std::string SlackText(const ServiceRates& rates) {
  if (rates.is_all_loaded) return "all";
  if (rates.slack_s >= 0) return HumanSeconds(rates.slack_s);
  return rates.slack_bytes < 0 ? "-" : HumanBytes(static_cast<uint64_t>(rates.slack_bytes));
}

struct Look {
  View view;
  uint64_t at_ns = 0;
};

std::vector<std::vector<std::string>> TopRows(const Look& before, const Look& now) {
  std::vector<std::vector<std::string>> rows = {{"SERVICE", "STATE", "MODE", "READ", "MB/S", "HITS",
                                                 "SLACK", "CACHE", "LOST", "LOADED IN",
                                                 "DIRECTORY"}};
  const double seconds = static_cast<double>(now.at_ns - before.at_ns) / 1e9;
  for (const auto& [path, directory] : now.view) {
    const auto old = before.view.find(path);
    const DirectoryView& then = old == before.view.end() ? directory : old->second;
    if (directory.services.empty() && !directory.policy.empty()) {
      rows.push_back({"-", directory.state, "-", "-", "-", "-", "-", "-",
                      std::to_string(directory.lost), "-", path});
    }
    for (const auto& [id, service] : directory.services) {
      const ServiceRates rates = RatesOf(then, directory, id, seconds);
      std::array<char, 32> rate{};
      std::snprintf(rate.data(), rate.size(), "%.0f", rates.load_rate / 1e6);
      rows.push_back({id, service.state, service.mode.empty() ? "-" : service.mode,
                      Percent(rates.progress), rate.data(), Percent(rates.hit_share),
                      SlackText(rates), HumanBytes(service.resident),
                      std::to_string(directory.lost),
                      rates.left_s < 0 ? "-" : HumanSeconds(rates.left_s), path});
    }
  }
  return rows;
}

Json OrNull(double value) { return value < 0 ? Json(nullptr) : Json(value); }

Json TopJson(const Look& before, const Look& now) {
  Json list = Json::array();
  const double seconds = static_cast<double>(now.at_ns - before.at_ns) / 1e9;
  for (const auto& [path, directory] : now.view) {
    const auto old = before.view.find(path);
    const DirectoryView& then = old == before.view.end() ? directory : old->second;
    for (const auto& [id, service] : directory.services) {
      const ServiceRates rates = RatesOf(then, directory, id, seconds);
      list.push_back({{"mount", path},
                      {"service_id", id},
                      {"state", service.state},
                      {"mode", service.mode},
                      {"progress", OrNull(rates.progress)},
                      {"load_bytes_per_s", rates.load_rate},
                      {"hit_share", OrNull(rates.hit_share)},
                      {"slack_bytes", OrNull(rates.slack_bytes)},
                      {"slack_s", OrNull(rates.slack_s)},
                      {"resident", service.resident},
                      {"events_lost", directory.lost},
                      {"left_s", OrNull(rates.left_s)}});
    }
  }
  return {{"services", std::move(list)}};
}

Result<Look> TakeLook(DaemonLink& link, const std::string& mount, bool ask_policies) {
  Result<View> view = LookAtServices(link, mount, ask_policies);
  if (!view) return view.error();
  return Look{*std::move(view), MonotonicNs()};
}

void Tell(const std::string& mount, const std::string& service, const std::string& what,
          const std::string& detail) {
  const std::string time = LocalTime(static_cast<uint64_t>(std::time(nullptr)) * kNsPerSec);
  if (WantsJson()) {
    Json line{{"time", time}, {"mount", mount}, {"event", what}};
    if (!service.empty()) line["service_id"] = service;
    if (!detail.empty()) line["detail"] = detail;
    return PrintJsonLine(line);
  }
  std::printf("%s  %s  %s%s%s%s\n", time.c_str(), mount.c_str(),
              service.empty() ? "" : ("service " + service + " ").c_str(), what.c_str(),
              detail.empty() ? "" : ": ", detail.c_str());
  std::fflush(stdout);
}

void TellServices(const std::string& path, const DirectoryView& before, const DirectoryView& now) {
  for (const auto& [id, service] : now.services) {
    const auto old = before.services.find(id);
    const bool is_new = old == before.services.end();
    if (is_new || old->second.state != service.state) Tell(path, id, service.state, "");
  }
  for (const auto& [id, service] : before.services) {
    if (!now.services.contains(id)) Tell(path, id, "stopped", "");
  }
}

void TellChanges(const View& before, const View& now) {
  static const DirectoryView kNone;
  for (const auto& [path, directory] : now) {
    const auto old = before.find(path);
    const DirectoryView& then = old == before.end() ? kNone : old->second;
    if (then.policy != directory.policy && !directory.policy.empty()) {
      Tell(path, "", "registered", directory.policy);
    }
    if (then.state != directory.state) {
      Tell(path, "", directory.state, directory.state == "running" ? "" : directory.last_error);
    }
    if (directory.restarts > then.restarts && then.policy == directory.policy) {
      Tell(path, "", "restarted", directory.last_error);
    }
    TellServices(path, then, directory);
  }
  for (const auto& [path, directory] : before) {
    if (now.contains(path)) continue;
    TellServices(path, directory, kNone);
    Tell(path, "", "removed", directory.policy);
  }
}

Result<std::string> MountGiven(const Args& args) {
  if (args.operands.empty()) return std::string();
  return ReadMount(args);
}

}  // namespace

static int Top(const Args& args) {
  const Result<Repetition> repetition = ReadRepetition(args);
  if (!repetition) return WrongUsage(repetition.error().message);
  const Result<std::string> mount = MountGiven(args);
  if (!mount) return WrongUsage(mount.error().message);
  DaemonLink link(kLookTimeoutMs);
  Result<Look> before = TakeLook(link, *mount, /*ask_policies=*/true);
  if (!before) return link.Report(before.error());
  const bool is_terminal = isatty(STDOUT_FILENO) != 0 && !WantsJson();
  for (uint64_t shown = 0; repetition->count == 0 || shown < repetition->count; ++shown) {
    poll(nullptr, 0, static_cast<int>(repetition->interval_ms));
    Result<Look> now = TakeLook(link, *mount, /*ask_policies=*/true);
    if (!now) return link.Report(now.error());
    if (WantsJson()) {
      PrintJsonLine(TopJson(*before, *now));
    } else {
      std::printf("%s%s", is_terminal ? kClearScreen : "", Table(TopRows(*before, *now)).c_str());
      std::fflush(stdout);
    }
    if (std::ferror(stdout) != 0) return kExitFailed;
    before = std::move(now);
  }
  return kExitOk;
}

static int Events(const Args& args) {
  const Result<Repetition> repetition = ReadRepetition(args);
  if (!repetition) return WrongUsage(repetition.error().message);
  const Result<std::string> mount = MountGiven(args);
  if (!mount) return WrongUsage(mount.error().message);
  DaemonLink link(kLookTimeoutMs);
  View before;
  for (uint64_t looks = 0;; ++looks) {
    Result<View> now = LookAtServices(link, *mount, /*ask_policies=*/false);
    if (!now) return link.Report(now.error());
    TellChanges(before, *now);
    if (!args.Has("--follow") || std::ferror(stdout) != 0) return kExitOk;
    if (repetition->count != 0 && looks >= repetition->count) return kExitOk;
    before = *std::move(now);
    poll(nullptr, 0, static_cast<int>(repetition->interval_ms));
  }
}

namespace {

constexpr Option kInterval = {"--interval", "SECONDS", "between two looks (default 2)"};
constexpr Option kCount = {"--count", "N", "end after N looks"};
constexpr std::array kTopOptions = {kInterval, kCount};
constexpr std::array kEventsOptions = {Option{"--follow", nullptr, "go on with what changes", 'f'},
                                       kInterval, kCount};

const std::array kWatchVerbs = {
    cli::Verb{
        "top", "State", "[MNT]",
        "Show what services read and load, again and again.\n"
        "READ is the share of the template that was read, MB/S what is loaded ahead, HITS the\n"
        "share of reads since the last look that found their bytes, SLACK how far the loads are\n"
        "ahead of the readers (all: nothing is left to load), LOST events of the directory,\n"
        "LOADED IN when all is loaded at this rate.  Lines, where stdout is no terminal; with\n"
        "--json an object per line.",
        kTopOptions, Top},
    cli::Verb{"events", "State", "[MNT]",
              "Show the states of directories and services.\n"
              "With --follow what changes, too; with --json an object per line.",
              kEventsOptions, Events},
};

}  // namespace

Extra WatchExtra() { return {.verbs = kWatchVerbs, .after = "status"}; }

}  // namespace ppc::ctl
