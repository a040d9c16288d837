// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstddef>
#include <thread>

#include "daemon/base/config_reader.h"
#include "daemon/base/cpu_set.h"
#include "daemon/base/files.h"
#include "daemon/base/json.h"
#include "daemon/base/result.h"
#include "daemon/base/unique_fd.h"

namespace ppc {
namespace {

TEST(Result, HoldsValueOrError) {
  const Result<int> good(7);
  EXPECT_TRUE(good.ok());
  EXPECT_EQ(*good, 7);
  const Result<int> bad(PosixError("open x", ENOENT));
  EXPECT_FALSE(bad.ok());
  EXPECT_EQ(bad.error().code, ENOENT);
  EXPECT_EQ(bad.error().message, "open x: No such file or directory");
}

TEST(UniqueFd, MovesAndCloses) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  UniqueFd a(ends[0]);
  UniqueFd b(std::move(a));
  EXPECT_FALSE(a.IsValid());  // NOLINT: looked at on purpose
  b.Reset();
  EXPECT_EQ(close(ends[0]), -1);
  close(ends[1]);
}

// As systemd's RestrictSUIDSGID= does it; for the calling thread alone.
bool HideOpenAt2() {
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{4, code};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

TEST(OpenAt2, AFilterThatHidesItIsNamedOnce) {
  open_how how{};
  how.flags = O_RDONLY | O_CLOEXEC;
  how.resolve = RESOLVE_BENEATH;
  EXPECT_TRUE(OpenAt2(AT_FDCWD, ".", how).IsValid());
  EXPECT_FALSE(OpenAt2(AT_FDCWD, "..", how).IsValid());
  EXPECT_EQ(errno, EXDEV);
  bool is_hidden = false;
  int code = 0;
  testing::internal::CaptureStderr();
  std::thread([&] {
    is_hidden = HideOpenAt2();
    for (int i = 0; i < 3; ++i) {
      errno = 0;
      if (!OpenAt2(AT_FDCWD, ".", how).IsValid()) code = errno;
    }
  }).join();
  const std::string log = testing::internal::GetCapturedStderr();
  ASSERT_TRUE(is_hidden);
  EXPECT_EQ(code, ENOSYS);
  EXPECT_NE(log.find("seccomp"), std::string::npos) << log;
  EXPECT_NE(log.find("RestrictSUIDSGID"), std::string::npos) << log;
  EXPECT_EQ(log.find('\n'), log.size() - 1) << log;
}

TEST(Json, RefusesNonsenseWithoutExceptions) {
  EXPECT_FALSE(ParseJson("{", "x").ok());
  EXPECT_FALSE(ParseJsonObject("[1]", "x").ok());
  EXPECT_TRUE(ParseJsonObject("{\"a\": \"}]\"}", "x").ok());
  EXPECT_FALSE(ParseJson(std::string(100, '['), "x").ok());
  EXPECT_EQ(DumpJson(Json("\xff")), "\"\xef\xbf\xbd\"");
}

TEST(Json, ReadsTypedMembers) {
  const Json object = {{"n", 5}, {"s", "16M"}, {"b", true}, {"bad", "x"}, {"null", nullptr}};
  EXPECT_EQ(*JsonSize(object, "n", 0), 5u);
  EXPECT_EQ(*JsonSize(object, "s", 0), 16u << 20);
  EXPECT_EQ(*JsonSize(object, "absent", 9), 9u);
  EXPECT_EQ(*JsonSize(object, "null", 9), 9u);
  EXPECT_FALSE(JsonSize(object, "bad", 0).ok());
  EXPECT_FALSE(JsonBool(object, "n", false).ok());
  EXPECT_TRUE(*JsonBool(object, "b", false));
  EXPECT_FALSE(JsonInt(object, "s", 0).ok());
}

TEST(ParseSize, KnowsSuffixes) {
  EXPECT_EQ(*ParseSize("0"), 0u);
  EXPECT_EQ(*ParseSize("4096"), 4096u);
  EXPECT_EQ(*ParseSize("1.5K"), 1536u);
  EXPECT_EQ(*ParseSize("2GiB"), 2ULL << 30);
  EXPECT_EQ(*ParseSize("1T"), 1ULL << 40);
  for (const char* bad : {"", "M", "-1", "1X", "1MM", "1 M", "nan", "1e30"}) {
    EXPECT_FALSE(ParseSize(bad).ok()) << bad;
  }
}

TEST(CpuList, ParsesAndFormats) {
  EXPECT_EQ(*ParseCpuList("0-2,8,4\n"), (CpuList{0, 1, 2, 4, 8}));
  EXPECT_EQ(*ParseCpuList(""), CpuList{});
  EXPECT_EQ(FormatCpuList({0, 1, 2, 4, 8, 9}), "0-2,4,8-9");
  for (const char* bad : {"a", "3-1", "1-", "-1", "99999"}) {
    EXPECT_FALSE(ParseCpuList(bad).ok()) << bad;
  }
  EXPECT_EQ(Intersect({0, 1, 2}, {1, 2, 3}), (CpuList{1, 2}));
}

TEST(CpuList, BindsTheCallingThread) {
  const CpuList before = AllowedCpus();
  ASSERT_FALSE(before.empty());
  ASSERT_TRUE(BindThread({before.front()}).ok());
  EXPECT_EQ(AllowedCpus(), CpuList{before.front()});
  EXPECT_TRUE(BindThread(before).ok());
  EXPECT_FALSE(BindThread({}).ok());
}

std::string ErrorOfConfig(const char* text) {
  const Json object = Json::parse(text);
  int count = 1;
  uint64_t bytes = 2;
  double share = 0.5;
  bool is_on = false;
  std::string path;
  ConfigReader reader(object, "option");
  reader.Int("wait_ms", &count, 1, 100, "milliseconds");
  reader.Size("limit", &bytes);
  reader.Number("share", &share, 0, 1, /*is_open=*/true);
  reader.Bool("on", &is_on);
  reader.Path("file", &path);
  const Status status = reader.Finish();
  return status ? std::to_string(count) + " " + std::to_string(bytes) + " " + path
                : status.error().message;
}

TEST(ConfigReader, ReadsWhatIsThere) {
  EXPECT_EQ(ErrorOfConfig("{}"), "1 2 ");
  EXPECT_EQ(ErrorOfConfig(R"({"wait_ms":7,"limit":"1K","share":1,"on":true,"file":"/x"})"),
            "7 1024 /x");
  EXPECT_EQ(ErrorOfConfig(R"({"wait_ms":null,"file":""})"), "1 2 ");
}

TEST(ConfigReader, ErrorsSayTypeRangeAndUnit) {
  EXPECT_EQ(
      ErrorOfConfig(R"({"wait_ms":"soon"})"),
      "option \"wait_ms\" must be a whole number of milliseconds from 1 to 100, not \"soon\"");
  EXPECT_EQ(ErrorOfConfig(R"({"wait_ms":18446744073709551615})"),
            "option \"wait_ms\" must be a whole number of milliseconds from 1 to 100, not "
            "18446744073709551615");
  EXPECT_EQ(ErrorOfConfig(R"({"share":0})"),
            "option \"share\" must be a number above 0 and at most 1, not 0");
  EXPECT_EQ(ErrorOfConfig(R"({"on":1})"), "option \"on\" must be true or false, not 1");
  EXPECT_EQ(ErrorOfConfig(R"({"file":"x"})"),
            "option \"file\" must be an absolute path, not \"x\"");
  EXPECT_EQ(ErrorOfConfig(R"({"limit":"many","on":1})"),
            "option \"limit\" must be a size: bytes, or text such as \"16M\", not \"many\"");
}

TEST(ConfigReader, UnknownKeysAreGuessed) {
  EXPECT_EQ(ErrorOfConfig(R"({"limi":1})"),
            "there is no option \"limi\"; did you mean 'limit'? there are wait_ms limit share on "
            "file");
  EXPECT_EQ(ErrorOfConfig(R"({"elsewhere":1})"),
            "there is no option \"elsewhere\"; there are wait_ms limit share on file");
}

TEST(Files, BelowADirectory) {
  EXPECT_TRUE(IsBelow("/models", "/models"));
  EXPECT_TRUE(IsBelow("/models/a/b", "/models"));
  EXPECT_TRUE(IsBelow("/models", "/"));
  EXPECT_FALSE(IsBelow("/models2/a", "/models"));
  EXPECT_FALSE(IsBelow("/", "/models"));
}

TEST(Json, WhatIsMissingIsEmpty) {
  const Json object = {{"there", {{"a", 1}}}};
  EXPECT_EQ(JsonMember(JsonMember(object, "there"), "a"), 1);
  EXPECT_EQ(JsonMember(JsonMember(object, "gone"), "a"), Json::object());
  EXPECT_EQ(JsonMember(Json::array(), "a"), Json::object());
}

}  // namespace
}  // namespace ppc
