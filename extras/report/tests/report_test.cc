// SPDX-License-Identifier: Apache-2.0
// The parts of made-up start-ups.
#include <gtest/gtest.h>

#include <algorithm>

#include "daemon/base/files.h"
#include "extras/report/parts.h"
#include "extras/report/start_report.h"
#include "tests/unit/has.h"
#include "tests/unit/temp_tree.h"

namespace ppc::ctl {
namespace {

constexpr uint64_t kMs = 1'000'000;
constexpr uint64_t kStart = 5'000 * kMs;
constexpr uint64_t kModel = 1 << 20;

// A start in which each process has one state after the other, sampled every 20 ms.
class MadeUpStart {
 public:
  struct Stretch {
    Doing doing;
    int ms;
    double user = 1;  // share of its run time; the rest is the kernel's
    double no_cpu = 0;
  };
  MadeUpStart(int init_ms, const std::vector<std::vector<Stretch>>& processes) {
    log_.begin_ns = kStart;
    for (int t = 0; t < init_ms; t += 20) Look(t, 0, {{Doing::kRuns, 20}}, processes.size());
    int load_ms = 0;
    for (const auto& stretches : processes) {
      int sum = 0;
      for (const Stretch& stretch : stretches) sum += stretch.ms;
      load_ms = std::max(load_ms, sum);
    }
    for (int t = 0; t < load_ms; t += 20) {
      std::vector<Stretch> now;
      for (const auto& stretches : processes) now.push_back(At(stretches, t));
      Look(init_ms + t, 1 + static_cast<uint64_t>(t), now, now.size());
    }
    log_.end_ns = kStart + static_cast<uint64_t>(init_ms + load_ms) * kMs;
    log_.is_ready = true;
  }
  const StartLog& log() const { return log_; }

 private:
  static Stretch At(const std::vector<Stretch>& stretches, int t) {
    for (const Stretch& stretch : stretches) {
      if (t < stretch.ms) return stretch;
      t -= stretch.ms;
    }
    return {Doing::kSleeps, 20};
  }
  void Look(int t, uint64_t bytes, const std::vector<Stretch>& now, size_t processes) {
    Sample sample;
    sample.time_ns = kStart + static_cast<uint64_t>(t) * kMs;
    clocks_.resize(processes);
    for (size_t i = 0; i < processes; ++i) {
      const Stretch& stretch = now[std::min(i, now.size() - 1)];
      ProcessSample& clock = clocks_[i];
      clock.pid = static_cast<pid_t>(100 + i);
      clock.doing = stretch.doing;
      sample.processes.push_back(clock);
      if (stretch.doing != Doing::kRuns) continue;
      const double ran = 20.0 * kMs * (1 - stretch.no_cpu);
      clock.user_ns += static_cast<uint64_t>(ran * stretch.user);
      clock.kernel_ns += static_cast<uint64_t>(ran * (1 - stretch.user));
      clock.no_cpu_ns += static_cast<uint64_t>(20.0 * kMs * stretch.no_cpu);
    }
    log_.samples.push_back(sample);
    if (t % 100 == 0) {
      log_.progress.push_back({.asked_ns = sample.time_ns,
                               .time_ns = sample.time_ns,
                               .bytes = bytes,
                               .total = kModel,
                               .missed = bytes / 2,
                               .disk_rate = 300e6});
    }
  }
  StartLog log_;
  std::vector<ProcessSample> clocks_;
};

double Explained(const StartParts& parts) {
  return parts.init_s + parts.disk_s + parts.user_s + parts.kernel_s + parts.no_cpu_s +
         parts.device_s;
}

void ExpectSum(const StartParts& parts) {
  EXPECT_NEAR(Explained(parts) + parts.unexplained_s, parts.total_s, 1e-6);
  EXPECT_LE(parts.unexplained_s, 0.05 * parts.total_s);
  EXPECT_LE(parts.overlap_s, 0.05 * parts.total_s);
}

// All samples of a log, by process number.
template <typename Change>
StartLog Changed(StartLog log, Change change) {
  for (size_t i = 0; i < log.samples.size(); ++i) change(i, &log.samples[i]);
  return log;
}

TEST(ReportTest, EachPartIsFound) {
  const MadeUpStart start(2000, {{{Doing::kDisk, 3000},
                                  {Doing::kSleeps, 1000},
                                  {Doing::kRuns, 1000, 0.5},
                                  {Doing::kRuns, 1000, 1, 0.5}}});
  const StartParts parts = PartsOf(start.log());
  EXPECT_NEAR(parts.init_s, 2.0, 0.2);
  EXPECT_NEAR(parts.disk_s, 3.0, 0.2);
  EXPECT_NEAR(parts.device_s, 1.0, 0.2);
  EXPECT_NEAR(parts.kernel_s, 0.5, 0.1);
  EXPECT_NEAR(parts.user_s, 1.0, 0.1);
  EXPECT_NEAR(parts.no_cpu_s, 0.5, 0.1);
  EXPECT_EQ(parts.readers, 1u);
  ExpectSum(parts);
  EXPECT_EQ(LimitOf(parts).name, "disk");
}

// A parent that waits for its workers is no reader; two workers are averaged.
TEST(ReportTest, ReadersAloneCount) {
  const MadeUpStart start(0, {{{Doing::kSleeps, 4000}},
                              {{Doing::kDisk, 4000}},
                              {{Doing::kDisk, 2000}, {Doing::kSleeps, 2000}}});
  const StartParts parts = PartsOf(start.log());
  EXPECT_EQ(parts.readers, 2u);
  EXPECT_NEAR(parts.disk_s, 3.0, 0.1);
  EXPECT_NEAR(parts.device_s, 1.0, 0.1);
  ExpectSum(parts);
}

// Consecutive readers are added like one, as the commands of a script.
TEST(ReportTest, ReadersThatFollowOneAnotherAddUp) {
  const MadeUpStart start(0, {{{Doing::kDisk, 1000}, {Doing::kSleeps, 1000}},
                              {{Doing::kSleeps, 1000}, {Doing::kRuns, 1000}}});
  const StartParts parts = PartsOf(Changed(start.log(), [](size_t i, Sample* sample) {
    const auto gone = sample->processes.begin() + (i < 50 ? 1 : 0);
    sample->processes.erase(gone);
  }));
  EXPECT_EQ(parts.readers, 2u);
  EXPECT_NEAR(parts.disk_s, 1.0, 0.05);
  EXPECT_NEAR(parts.user_s, 1.0, 0.05);
  ExpectSum(parts);
}

// A second without the only reader.
TEST(ReportTest, WhatNobodyWasSeenDoingIsUnexplained) {
  const MadeUpStart start(0, {{{Doing::kDisk, 4000}}});
  const auto without = [&start](size_t begin, size_t end) {
    return PartsOf(Changed(start.log(), [begin, end](size_t i, Sample* sample) {
      if (i >= begin && i < end) sample->processes.clear();
    }));
  };
  const StartParts parts = without(100, 150);
  EXPECT_NEAR(parts.unexplained_s, 1.0, 0.05);
  EXPECT_NEAR(parts.disk_s, 3.0, 0.05);
  EXPECT_NEAR(Explained(parts) + parts.unexplained_s, parts.total_s, 1e-6);
  EXPECT_EQ(LimitOf(parts).name, "disk");
  EXPECT_EQ(LimitOf(without(10, 190)).name, "unexplained");
  const Json report = ReportJson(start.log(), parts, LimitOf(parts));
  EXPECT_NEAR(report["parts"]["unexplained_s"].get<double>(), 1.0, 0.05);
  EXPECT_TRUE(Has(ReportText(report), "  unexplained                          1."));
}

// Found running for two seconds; the kernel's clocks show one, or eight for several threads.
TEST(ReportTest, ClocksThatSayOtherwiseAreTold) {
  const MadeUpStart start(0, {{{Doing::kDisk, 2000}, {Doing::kRuns, 2000}}});
  const auto by_clocks = [&start](double factor) {
    return PartsOf(Changed(start.log(), [factor](size_t, Sample* sample) {
      auto& user_ns = sample->processes[0].user_ns;
      user_ns = static_cast<uint64_t>(factor * static_cast<double>(user_ns));
    }));
  };
  const StartParts less = by_clocks(0.5);
  EXPECT_NEAR(less.user_s, 1.0, 0.05);
  EXPECT_NEAR(less.unexplained_s, 1.0, 0.05);
  const StartParts more = by_clocks(4);
  EXPECT_NEAR(more.user_s, 2.0, 0.05);
  EXPECT_NEAR(more.disk_s, 2.0, 0.05);
  EXPECT_NEAR(more.overlap_s, 6.0, 0.1);
  EXPECT_NEAR(more.unexplained_s, 0, 0.05);
}

// Without a CPU to look with, the clocks show how long it ran.
TEST(ReportTest, OfALateLookTheClocksTell) {
  const MadeUpStart start(0, {{{Doing::kDisk, 1000}, {Doing::kRuns, 3000}, {Doing::kDisk, 1000}}});
  StartLog log = start.log();
  // One look between just before it runs and just before it waits again.
  std::erase_if(log.samples, [&log](const Sample& sample) {
    const uint64_t at_ms = (sample.time_ns - log.begin_ns) / kMs;
    return at_ms >= 1000 && at_ms < 4500 && at_ms != 2500;
  });
  const StartParts parts = PartsOf(log);
  EXPECT_NEAR(parts.user_s, 3.0, 0.05);
  EXPECT_NEAR(parts.disk_s, 2.0, 0.05);
  EXPECT_NEAR(parts.overlap_s, 0, 0.05);
  EXPECT_NEAR(parts.unexplained_s, 0, 0.05);
}

// The wait of an ended thread is gone from the sum.
TEST(ReportTest, AClockMayFall) {
  const MadeUpStart start(0, {{{Doing::kRuns, 2000, 1, 0.5}}});
  const StartParts parts = PartsOf(Changed(start.log(), [](size_t i, Sample* sample) {
    sample->processes[0].no_cpu_ns = (100 - i) * kMs;
  }));
  EXPECT_NEAR(parts.user_s, 1.0, 0.05);
  EXPECT_EQ(parts.no_cpu_s, 0);
}

TEST(ReportTest, TheLimitIsNamed) {
  const auto limit = [](int init_ms, MadeUpStart::Stretch most) {
    return LimitOf(PartsOf(MadeUpStart(init_ms, {{most, {Doing::kDisk, 400}}}).log())).name;
  };
  EXPECT_EQ(limit(5000, {Doing::kRuns, 1000}), "init");
  EXPECT_EQ(limit(100, {Doing::kDisk, 3000}), "disk");
  EXPECT_EQ(limit(100, {Doing::kSleeps, 3000}), "device");
  EXPECT_EQ(limit(100, {Doing::kRuns, 3000, 0.1}), "kernel");
  EXPECT_EQ(limit(100, {Doing::kRuns, 3000, 0.9}), "cpu");
  EXPECT_EQ(limit(100, {Doing::kRuns, 3000, 0.9, 0.8}), "no-cpu");
}

// Between two queries, the second of which finds the service ready and its policy idle.
TEST(ReportTest, ALoadThatNobodySawIsShort) {
  StartLog log = MadeUpStart(5000, {}).log();
  log.end_ns += 60 * kMs;
  log.progress.push_back({.asked_ns = log.end_ns, .time_ns = log.end_ns, .is_ready = true});
  const StartParts parts = PartsOf(log);
  EXPECT_GT(parts.init_s, 4.8);
  EXPECT_EQ(LimitOf(parts).name, "init");
}

// Slow queries: bytes read by then count at the pace of the rest.
TEST(ReportTest, TheBeginIsFoundBetweenQuestions) {
  StartLog log = MadeUpStart(1000, {{{Doing::kDisk, 4000}}}).log();
  std::erase_if(log.progress, [](const Progress& each) {
    return each.time_ns > kStart + 100 * kMs && each.time_ns < kStart + 1600 * kMs;
  });
  EXPECT_NEAR(PartsOf(log).init_s, 1.0, 0.1);
}

// Reads while the policy looks for a template are counted afterwards.
TEST(ReportTest, NothingReadWhileItPreparesIsNoInitialisation) {
  StartLog log = MadeUpStart(100, {{{Doing::kDisk, 4000}}}).log();
  for (Progress& each : log.progress) {
    each.is_counted = each.time_ns > kStart + 500 * kMs;
    if (!each.is_counted) each.bytes = 0;
  }
  EXPECT_NEAR(PartsOf(log).init_s, 0.1, 0.1);
}

// At first almost nothing of the model is read, but its reader waits for it.
TEST(ReportTest, ASlowBeginBelongsToTheLoad) {
  StartLog log = MadeUpStart(100, {{{Doing::kDisk, 4000}}}).log();
  for (Progress& each : log.progress) {
    if (each.time_ns > kStart + 200 * kMs && each.time_ns < kStart + 900 * kMs)
      each.bytes = kModel / 100;
  }
  EXPECT_NEAR(PartsOf(log).init_s, 0.1, 0.12);
  // Headers are read long before the rest of the model.
  log = MadeUpStart(0, {{{Doing::kSleeps, 2000}, {Doing::kDisk, 4000}}}).log();
  for (Progress& each : log.progress)
    each.bytes = each.time_ns <= kStart + 2000 * kMs ? kModel / 100 : kModel / 2;
  EXPECT_NEAR(PartsOf(log).init_s, 2.0, 0.2);
}

// The time of the numbers in a slow answer is unknown.
TEST(ReportTest, TheBeginMayBeWithinAQuestion) {
  StartLog log = MadeUpStart(100, {{{Doing::kDisk, 4000}}}).log();
  std::erase_if(log.progress, [](const Progress& each) {
    return each.time_ns > kStart && each.time_ns < kStart + 600 * kMs;
  });
  log.progress.front().time_ns = kStart + 500 * kMs;
  EXPECT_NEAR(PartsOf(log).init_s, 0.1, 0.1);
}

// The last answer came after the end.
TEST(ReportTest, PartsOfAShortStartAreNoMoreThanTheWhole) {
  StartLog log;
  log.begin_ns = kStart;
  log.end_ns = kStart + 500 * kMs;
  log.progress = {
      {.asked_ns = kStart, .time_ns = kStart + 20 * kMs, .total = kModel},
      {.asked_ns = kStart, .time_ns = kStart + 510 * kMs, .bytes = kModel, .total = kModel}};
  const StartParts parts = PartsOf(log);
  EXPECT_LE(parts.init_s, parts.total_s);
  EXPECT_GE(parts.device_s, 0);
}

TEST(ReportTest, WhatThePolicyDidIsSaid) {
  Json report = ReportJson({}, {}, {});
  EXPECT_FALSE(Has(ReportText(report), "recorded"));
  report["mode"] = "record";
  EXPECT_TRUE(Has(ReportText(report), ", recorded for the next start"));
  report["mode"] = "use";
  EXPECT_TRUE(Has(ReportText(report), "what an earlier start recorded"));
}

// A command whose work is done when it ends reports no ready.
TEST(ReportTest, WhoEndsWellWasReady) {
  const auto ended = [](bool has_succeeded) {
    StartReport report("/nowhere/ppcd.sock", "/models", "svc", "true");
    return report.End(has_succeeded)["parts"]["is_ready"];
  };
  EXPECT_EQ(ended(false), false);
  EXPECT_EQ(ended(true), true);
}

TEST(ReportTest, NothingSeenIsNoDivision) {
  StartLog log;
  log.begin_ns = log.end_ns = kStart;
  const StartParts parts = PartsOf(log);
  EXPECT_EQ(parts.total_s, 0);
  const Json report = ReportJson(log, parts, LimitOf(parts));
  EXPECT_TRUE(Has(ReportText(report), "not ready when watching ended"));
  EXPECT_TRUE(Has(Value(ReportPage(report)), "</html>"));
}

TEST(ReportTest, PagesTellTheSame) {
  const MadeUpStart start(1000, {{{Doing::kDisk, 3000}}});
  Json report = ReportJson(start.log(), PartsOf(start.log()), LimitOf(PartsOf(start.log())));
  for (const char* file : {"x.txt", "x.md", "x.html"})
    EXPECT_EQ(ReportFor(file, report)->find("uard"), std::string::npos) << "it was open";
  report["guard"] = "no_drops: 17 MiB & more";
  report["service_id"] = "svc-<b>";
  report["directory"] = "/models";
  report["command"] = "serve \"x\"";
  EXPECT_TRUE(Has(*ReportFor("x.txt", report), "limit: disk: "));
  EXPECT_TRUE(Has(*ReportFor("x.md", report), "| waiting for the disk | "));
  EXPECT_TRUE(Has(*ReportFor("x.txt", report), "\nguard: no_drops: 17 MiB & more\n"));
  EXPECT_TRUE(Has(*ReportFor("x.md", report), "**Guard:** no_drops: 17 MiB & more."));
  const std::string page = Value(ReportFor("x.html", report));
  EXPECT_TRUE(Has(page, "svc-&lt;b&gt; in /models"));
  EXPECT_TRUE(Has(page, "waiting for the disk</td><td>3.0"));
  EXPECT_TRUE(Has(page, "<b>disk.</b>"));
  EXPECT_TRUE(Has(page, "What the guard withheld</h2><p>no_drops: 17 MiB &amp; more.</p>"));
  EXPECT_FALSE(Has(page, "svc-<b>"));
  for (const char* link : {"src=", "href=", "url(", "<script"}) {
    EXPECT_FALSE(Has(page, link)) << "needs nothing else";
  }
  EXPECT_EQ(Json::parse(*ReportFor("x.json", report))["limit"]["name"], "disk");
}

// Without the page's renderer no measured data is lost.
TEST(ReportTest, WhatCannotBeDrawnIsKept) {
  const auto error_with = [](const char* python) {
    const Result<std::string> page = ReportPage(ReportJson({}, {}, {}), python);
    return page.ok() ? "" : page.error().message;
  };
  EXPECT_EQ(error_with("/none/python3"), "a page is drawn by /none/python3, which is not here");
  EXPECT_EQ(error_with("/bin/false"), "the page cannot be drawn: it said nothing");
  const TempTree tree;
  const std::string file = tree.Root() + "/start.html";
  const std::string path = std::getenv("PATH");
  setenv("PATH", tree.Root().c_str(), 1);
  const Status written = WriteReport(file, ReportJson({}, {}, {}));
  setenv("PATH", path.c_str(), 1);
  ASSERT_FALSE(written);
  EXPECT_TRUE(Has(written.error().message, "ppcctl report --from " + file + ".json"));
  EXPECT_EQ(Json::parse(*ReadFile(file + ".json"))["schema"], 1);
  EXPECT_EQ(access(file.c_str(), F_OK), -1);
}

}  // namespace
}  // namespace ppc::ctl
