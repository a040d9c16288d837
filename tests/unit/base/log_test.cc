// SPDX-License-Identifier: Apache-2.0
// What is logged, in which form, and how much of it.
#include "daemon/base/log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <sstream>

#include "daemon/base/json.h"
#include "daemon/base/unique_fd.h"
#include "tests/unit/has.h"

namespace ppc {
namespace {

// What `say` writes to stderr, as lines; the log is this program's own.
template <typename Say>
std::vector<std::string> Logged(const char* format, const Say& say) {
  setenv(kLogFormatVariable, format, 1);
  SetLog("prog", LogLevel::kInfo);
  testing::internal::CaptureStderr();
  say();
  std::istringstream text(testing::internal::GetCapturedStderr());
  unsetenv(kLogFormatVariable);
  SetLog("prog", LogLevel::kInfo);
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

TEST(Log, AReaderThatDoesNotReadKeepsNobody) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
  const UniqueFd reader(ends[0]);
  UniqueFd writer(ends[1]);
  const UniqueFd before(dup(STDERR_FILENO));
  const int bytes = fcntl(writer.Get(), F_SETPIPE_SZ, 4096);
  ASSERT_EQ(write(writer.Get(), std::string(static_cast<size_t>(bytes), 'x').data(),
                  static_cast<size_t>(bytes)),
            bytes);
  ASSERT_EQ(dup2(writer.Get(), STDERR_FILENO), STDERR_FILENO);
  writer.Reset();
  SetLog("prog", LogLevel::kInfo);
  Log(LogLevel::kInfo, {"/full", ""}, "lost");
  std::string text(static_cast<size_t>(bytes), '\0');
  EXPECT_EQ(read(reader.Get(), text.data(), text.size()), bytes);
  Log(LogLevel::kInfo, {"/full", ""}, "read");
  const ssize_t got = read(reader.Get(), text.data(), text.size());
  ASSERT_EQ(dup2(before.Get(), STDERR_FILENO), STDERR_FILENO);
  text.resize(static_cast<size_t>(got));
  EXPECT_TRUE(Has(text, "read (and 1 lines not logged)"));
}

TEST(Log, TextBeginsWithTheDirectory) {
  const auto lines = Logged("text", [] {
    Log(LogLevel::kWarning, "for\nall");
    Log(LogLevel::kInfo, {"/models", "svc-one"}, "service svc-one was started");
    Log(LogLevel::kDebug, "not wanted");
  });
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_TRUE(lines[0].ends_with("prog: for all")) << lines[0];
  EXPECT_TRUE(lines[1].ends_with("prog: /models: service svc-one was started")) << lines[1];
}

TEST(Log, JsonHasFields) {
  const auto lines = Logged("json", [] {
    Log(LogLevel::kError, {"/models", "svc-one"}, "it \"failed\"\n");
    SetLogDirectory("/its own");
    Log(LogLevel::kInfo, "bytes that are no text: \xff");
  });
  ASSERT_EQ(lines.size(), 2U);
  const Json first = Json::parse(lines[0]);
  EXPECT_EQ(first["program"], "prog");
  EXPECT_EQ(first["pid"], getpid());
  EXPECT_EQ(first["priority"], 3);
  EXPECT_EQ(first["directory"], "/models");
  EXPECT_EQ(first["service"], "svc-one");
  EXPECT_EQ(first["message"], "it \"failed\"\n");
  EXPECT_EQ(first["time"].get<std::string>().size(), sizeof("2026-01-31T12:00:00.123456Z") - 1);
  const Json second = Json::parse(lines[1]);
  EXPECT_EQ(second["directory"], "/its own");
  EXPECT_FALSE(second.contains("service"));
}

// A service that logs without end hides no other, and all that was left out is counted.
TEST(Log, AFloodIsCutAndCounted) {
  constexpr int kFlood = 2000;
  const auto lines = Logged("json", [] {
    for (int i = 0; i < kFlood; ++i) Log(LogLevel::kInfo, {"/flood", "svc-loud"}, "again");
    Log(LogLevel::kInfo, {"/flood", "svc-quiet"}, "once");
    Log(LogLevel::kError, {"/flood", "svc-loud"}, "an error");
  });
  uint64_t left_out = 0;
  for (const std::string& line : lines) left_out += Json::parse(line).value("left_out", 0U);
  EXPECT_EQ(lines.size() + left_out, kFlood + 2U);
  EXPECT_GE(lines.size(), kLogBurst + 2U);
  EXPECT_GT(left_out, 0U);
  EXPECT_TRUE(Has(lines.back(), "an error"));
  EXPECT_TRUE(Has(lines[lines.size() - 2], "once"));
}

TEST(Log, WhatIsKeptSaysWhatItIsAbout) {
  KeepLog(2);
  (void)Logged("text", [] {
    Log(LogLevel::kInfo, "gone");
    Log(LogLevel::kInfo, "first");
    Log(LogLevel::kInfo, {"/models", "svc-one"}, "second");
  });
  const std::vector<LogLine> kept = RecentLog();
  KeepLog(0);
  ASSERT_EQ(kept.size(), 2U);
  EXPECT_EQ(kept[0].text, "first");
  EXPECT_EQ(kept[1].text, "/models: second");
  EXPECT_EQ(kept[1].about.service, "svc-one");
}

TEST(Log, TheServiceOfAPolicysMessage) {
  EXPECT_EQ(ServiceNamedBy("maio: service svc-1.a: use (a template)"), "svc-1.a");
  EXPECT_EQ(ServiceNamedBy("service 0123abcd: x"), "0123abcd");
  for (const char* none : {"maio: a service of yours: x", "maio: service", "maio: service svc-one",
                           "maio: it: service svc-one: x", ""}) {
    EXPECT_EQ(ServiceNamedBy(none), "") << none;
  }
}

}  // namespace
}  // namespace ppc
