// SPDX-License-Identifier: Apache-2.0
#include "daemon/wire/protocol.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <random>
#include <string>

#include "daemon/wire/line_channel.h"

namespace ppc::control {
namespace {

int CodeOf(const std::string& line) {
  const Result<Request> request = ParseRequest(line);
  return request ? 0 : request.error().code;
}

TEST(ParseRequest, TakesEveryOperation) {
  for (const char* line :
       {R"({"v":1,"op":"ping"})", R"({"v":1,"op":"reg_policy","mount":"/m","policy":"maio"})",
        R"({"v":1,"op":"reg_policy","mount":"/m","policy":"maio","config":{"a":1}})",
        R"({"v":1,"op":"rm_policy","mount":"/m"})",
        R"({"v":1,"op":"service_start","mount":"/m","params":{"model":"x"},
                       "xpus":[0,1],"workers":2,"cgroup":"/c","pid":1})",
        R"({"v":1,"op":"service_ready","mount":"/m","service_id":"abcd"})",
        R"({"v":1,"op":"service_stop","mount":"/m","service_id":"abcd"})",
        R"({"v":1,"op":"policy","mount":"/m","message":{"op":"x"}})", R"({"v":1,"op":"list"})",
        R"({"v":1,"op":"status","mount":"/m"})", R"({"v":1,"op":"service_id","params":{"a":1}})"}) {
    EXPECT_EQ(CodeOf(line), 0) << line;
  }
}

TEST(ParseRequest, TellsWhatChangesState) {
  EXPECT_FALSE(ParseRequest(R"({"v":1,"op":"status"})")->changes_state);
  EXPECT_TRUE(ParseRequest(R"({"v":1,"op":"rm_policy","mount":"/m"})")->changes_state);
}

TEST(ParseRequest, TellsWhatIsForServices) {
  const auto is_for_services = [](const std::string& fields) {
    return ParseRequest(R"({"v":1,)" + fields + "}")->is_for_services;
  };
  for (const char* fields :
       {R"("op":"ping")", R"("op":"status")", R"("op":"service_id","params":{"a":1})",
        R"("op":"service_start","mount":"/m","service_id":"abcd")",
        R"("op":"service_ready","mount":"/m","service_id":"abcd")",
        R"("op":"service_stop","mount":"/m","service_id":"abcd")"}) {
    EXPECT_TRUE(is_for_services(fields)) << fields;
  }
  for (const char* fields :
       {R"("op":"list")", R"("op":"log")", R"("op":"metrics")", R"("op":"rm_policy","mount":"/m")",
        R"("op":"reg_policy","mount":"/m","policy":"maio")",
        R"("op":"policy","mount":"/m","message":{"op":"x"})"}) {
    EXPECT_FALSE(is_for_services(fields)) << fields;
  }
}

TEST(ParseRequest, RefusesOtherVersions) {
  for (const char* line : {R"({"op":"ping"})", R"({"v":2,"op":"ping"})", R"({"v":"1","op":"ping"})",
                           R"({"v":null,"op":"ping"})", R"({"v":1.0,"op":"ping"})"}) {
    EXPECT_EQ(CodeOf(line), EPROTO) << line;
  }
}

TEST(ParseRequest, RefusesWrongTypesAndNamesTheField) {
  const std::array lines = {
      R"({"v":1,"op":"rm_policy","mount":7})",
      R"({"v":1,"op":"rm_policy","mount":""})",
      R"({"v":1,"op":"rm_policy","mount":null})",
      R"({"v":1,"op":"rm_policy"})",
      R"({"v":1,"op":"reg_policy","mount":"/m","policy":["x"]})",
      R"({"v":1,"op":"reg_policy","mount":"/m","policy":"x","config":"{}"})",
      R"({"v":1,"op":"reg_policy","mount":"/m","policy":"x","conifg":{}})",
      R"({"v":1,"op":"service_start","mount":"/m","xpus":[]})",
      R"({"v":1,"op":"service_start","mount":"/m","xpus":[0,-1]})",
      R"({"v":1,"op":"service_start","mount":"/m","xpus":[0.5]})",
      R"({"v":1,"op":"service_start","mount":"/m","workers":-1})",
      R"({"v":1,"op":"service_start","mount":"/m","pid":99999999999})",
      R"({"v":1,"op":"status","mount":false})",
  };
  for (const char* line : lines) {
    const Result<Request> request = ParseRequest(line);
    ASSERT_FALSE(request) << line;
    EXPECT_EQ(request.error().code, EINVAL) << line;
    EXPECT_NE(request.error().message.find('"'), std::string::npos) << request.error().message;
  }
}

TEST(ParseRequest, RefusesWhatIsNoRequest) {
  for (const char* line :
       {"", " ", "null", "[]", "7", "\"x\"", "{", "{}{}", "{'v':1}", "\xff\xfe",
        R"({"v":1,"op":"ping)", R"({"v":1,"op":"\ud800"})", R"({"v":1})", R"({"v":1,"op":7})"}) {
    EXPECT_NE(CodeOf(line), 0) << line;
  }
  EXPECT_EQ(CodeOf(R"({"v":1,"op":"format_disk"})"), EOPNOTSUPP);
}

TEST(ParseRequest, RefusesDeepNesting) {
  const std::string deep = R"({"v":1,"op":"policy","mount":"/m","message":{"op":)" +
                           std::string(100000, '[') + std::string(100000, ']') + "}}";
  EXPECT_EQ(CodeOf(deep), EINVAL);
}

TEST(ParseRequest, SurvivesRandomBytes) {
  std::mt19937 random(7);
  const std::string good = R"({"v":1,"op":"reg_policy","mount":"/m","policy":"maio"})";
  for (int round = 0; round < 20000; ++round) {
    std::string line = good;
    for (int i = 0; i < 3; ++i) line[random() % line.size()] = static_cast<char>(random());
    (void)ParseRequest(line);
  }
}

TEST(Answers, CarryErrorsThereAndBack) {
  const Json answer = ErrorAnswer(Error{EBUSY, "two\nlines"});
  EXPECT_FALSE(IsOk(answer));
  EXPECT_EQ(answer["code"], "EBUSY");
  EXPECT_EQ(answer["error"], "two lines");
  EXPECT_EQ(AnswerError(answer).code, EBUSY);
  EXPECT_TRUE(IsOk(OkAnswer()));
  EXPECT_FALSE(IsOk(Json{{"ok", "true"}}));
  EXPECT_FALSE(IsOk(Json::array()));
}

TEST(Answers, LongErrorsKeepTheThingAndTheRemedy) {
  const Json answer =
      ErrorAnswer(Error{EINVAL, "'" + std::string(100000, 'x') + "' is none; name one"});
  const std::string text = answer["error"];
  EXPECT_LE(text.size(), kMaxErrorText);
  EXPECT_TRUE(text.starts_with("'xx"));
  EXPECT_TRUE(text.ends_with("xx' is none; name one"));
}

TEST(Answers, KnowErrnoNames) {
  EXPECT_EQ(ErrnoFromName("EBUSY"), EBUSY);
  EXPECT_EQ(ErrnoFromName("ENOTSUP"), EOPNOTSUPP);
  EXPECT_EQ(ErrnoFromName("nonsense"), EIO);
  EXPECT_EQ(ErrnoName(0), "EIO");
  EXPECT_EQ(ErrnoName(123456), "EIO");
}

class LineChannelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::array<int, 2> pair{};
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()), 0);
    far_.Reset(pair[0]);
    channel_.emplace(UniqueFd(pair[1]), 100, 1000);
  }
  void Write(const std::string& text) {
    ASSERT_EQ(send(far_.Get(), text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
    channel_->Receive();
  }
  std::string Next() {
    const auto line = channel_->NextLine();
    if (!line) return "error";
    return line->has_value() ? **line : "none";
  }

  UniqueFd far_;
  std::optional<LineChannel> channel_;
};

TEST_F(LineChannelTest, PutsPiecesTogether) {
  Write("he");
  EXPECT_EQ(Next(), "none");
  Write("llo\nwor");
  EXPECT_EQ(Next(), "hello");
  EXPECT_EQ(Next(), "none");
  Write("ld\n\nx\n");
  EXPECT_EQ(Next(), "world");
  EXPECT_EQ(Next(), "");
  EXPECT_EQ(Next(), "x");
  EXPECT_EQ(Next(), "none");
}

TEST_F(LineChannelTest, LimitsALine) {
  Write(std::string(100, 'a') + "\n");
  EXPECT_EQ(Next(), std::string(100, 'a'));
  Write(std::string(101, 'a'));
  EXPECT_EQ(Next(), "error");
  EXPECT_EQ(Next(), "none");
  Write("the rest of it\nshort\n" + std::string(150, 'b') + "\nlast\n");
  EXPECT_EQ(Next(), "short");
  EXPECT_EQ(Next(), "error");
  EXPECT_EQ(Next(), "last");
  EXPECT_EQ(Next(), "none");
}

TEST_F(LineChannelTest, KeepsLinesThatCameBeforeTheEnd) {
  Write("last\nhalf");
  far_.Reset();
  EXPECT_FALSE(channel_->Receive());
  EXPECT_EQ(Next(), "last");
  EXPECT_EQ(Next(), "none");
}

TEST_F(LineChannelTest, LimitsWhatIsUnsent) {
  const std::string line(900, 'b');
  Status status = Ok();
  for (int i = 0; i < 10000 && status; ++i) status = channel_->Send(line);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ENOBUFS);
}

}  // namespace
}  // namespace ppc::control
