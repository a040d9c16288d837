// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "daemon/base/config_reader.h"
#include "daemon/base/cpu_set.h"
#include "daemon/base/digests.h"
#include "daemon/base/files.h"
#include "daemon/base/json.h"
#include "daemon/base/result.h"
#include "daemon/base/text.h"
#include "daemon/base/unique_fd.h"
#include "tests/unit/child.h"
#include "tests/unit/has.h"
#include "tests/unit/hidden_call.h"

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
    is_hidden = HideCall(SYS_openat2);  // as systemd's RestrictSUIDSGID=
    for (int i = 0; i < 3; ++i) {
      errno = 0;
      if (!OpenAt2(AT_FDCWD, ".", how).IsValid()) code = errno;
    }
  }).join();
  const std::string log = testing::internal::GetCapturedStderr();
  ASSERT_TRUE(is_hidden);
  EXPECT_EQ(code, ENOSYS);
  EXPECT_TRUE(Has(log, "seccomp"));
  EXPECT_TRUE(Has(log, "RestrictSUIDSGID"));
  EXPECT_EQ(log.find('\n'), log.size() - 1) << log;
}

// Whether only descriptors below `first` are left in a process that had many, one of them above the
// limit that was set later.
bool ClosesAllFrom(int first, bool is_hidden) {
  return EndOf(StartChild([=] {
           constexpr int kMany = 600;
           const rlimit low{256, 1024};
           bool is_good = !is_hidden || HideCall(SYS_close_range);
           for (int i = 0; i < kMany; ++i) is_good = fcntl(0, F_DUPFD, first) >= 0 && is_good;
           is_good = is_good && setrlimit(RLIMIT_NOFILE, &low) == 0;
           CloseFrom(first);
           for (int fd = first; fd < first + kMany; ++fd) is_good = close(fd) != 0 && is_good;
           return is_good && fcntl(0, F_GETFD) >= 0 && fcntl(first - 1, F_GETFD) >= 0 ? 0 : 1;
         })) == 0;
}

TEST(CloseFrom, NothingStaysOpenWhereCloseRangeIsMissing) {
  // Above what the caller of this test may have left open.
  constexpr int kFirst = 64;
  const UniqueFd below(fcntl(0, F_DUPFD_CLOEXEC, kFirst - 1));
  ASSERT_EQ(below.Get(), kFirst - 1);
  EXPECT_TRUE(ClosesAllFrom(kFirst, false));
  EXPECT_TRUE(ClosesAllFrom(kFirst, true));
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

// "reserve" of the runner is a size or a share.
TEST(ConfigReader, AKeyThatIsLookedAtTwiceIsListedOnce) {
  const Json object{{"elsewhere", 1}};
  uint64_t bytes = 0;
  ConfigReader reader(object, "option");
  (void)reader.Find("reserve");
  reader.Size("reserve", &bytes);
  EXPECT_EQ(reader.Finish().error().message, "there is no option \"elsewhere\"; there are reserve");
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

std::span<const uint8_t> Bytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

TEST(Crc32c, IsThatOfTheCheckString) { EXPECT_EQ(Crc32c("123456789", 9), 0xe3069283u); }

TEST(Crc32c, GoesOn) { EXPECT_EQ(Crc32c("6789", 4, Crc32c("12345", 5)), Crc32c("123456789", 9)); }

// Published test vectors: what is on disks and in stores is named and sealed by these.
TEST(Sha256, MatchesThePublishedVectors) {
  EXPECT_EQ(Sha256Hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Sha256Hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Sha256Hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(Sha256Hex(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, PadsEveryLengthAroundABlock) {
  EXPECT_EQ(Sha256Hex(std::string(55, 'x')).substr(0, 8), "d5e28568");
  EXPECT_EQ(Sha256Hex(std::string(56, 'x')).substr(0, 8), "04c26261");
  EXPECT_EQ(Sha256Hex(std::string(64, 'x')).substr(0, 8), "7ce10097");
}

TEST(Sha256, InPiecesIsThatOfTheWhole) {
  Sha256 pieces;
  pieces.Update("ab");
  pieces.Update("");
  pieces.Update("c");
  EXPECT_EQ(pieces.Hex(), Sha256Hex("abc"));
  const std::string million(1000000, 'a');
  const Sha256Digest d = Sha256Of({Bytes(million).first(997), Bytes(million).subspan(997)});
  EXPECT_EQ(Hex(d.data(), d.size()), Sha256Hex(million));
  EXPECT_EQ(Sha256Of(million.data(), million.size()), d);
}

// RFC 4231, test cases 1, 2 and 6.
TEST(Hmac, IsThatOfTheStandard) {
  EXPECT_EQ(HmacSha256Hex(std::string(20, '\x0b'), "Hi There"),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(HmacSha256Hex("Jefe", "what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(HmacSha256Hex(std::string(131, '\xaa'),
                          "Test Using Larger Than Block-Size Key - Hash Key First"),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(Hmac, InPartsIsThatOfTheWhole) {
  const std::string secret = "Jefe", first = "what do ya ", rest = "want for nothing?";
  const Sha256Digest d = HmacSha256(secret, {Bytes(first), Bytes(rest)});
  EXPECT_EQ(Hex(d.data(), d.size()), HmacSha256Hex(secret, first + rest));
}

TEST(Text, IsCutAtItsSeparators) {
  std::string_view rest = "a,,b";
  EXPECT_EQ(Cut(&rest, ','), "a");
  EXPECT_EQ(Cut(&rest, ','), "");
  EXPECT_EQ(rest, "b");
  EXPECT_EQ(Cut(&rest, ','), "b");
  EXPECT_TRUE(rest.empty());
}

TEST(Text, IsANumberAsAWholeOrBeginsWithOne) {
  EXPECT_EQ(WholeNumber<int>("-12"), -12);
  for (const char* none : {"", "12a", " 12", "99999999999"})
    EXPECT_EQ(WholeNumber<int>(none), std::nullopt) << none;
  EXPECT_EQ(LeadingNumber<uint64_t>("12 kB"), 12U);
  EXPECT_EQ(LeadingNumber<uint64_t>("max"), 0U);
}

}  // namespace
}  // namespace ppc
