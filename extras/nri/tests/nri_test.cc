// SPDX-License-Identifier: Apache-2.0
// A plugin between a made-up runtime and a handler: bytes of the protocol, and events.
#include <gtest/gtest.h>

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "extras/nri/plugin.h"
#include "extras/nri/wire.h"

namespace ppc::nri {
namespace {

using namespace std::string_literals;

std::string Entry(const std::string& key, const std::string& value) {
  return BytesField(1, key) + BytesField(2, value);
}

std::string Pod() {
  return BytesField(1, "sandbox") + BytesField(6, Entry("ppc.model", "/models/qwen")) +
         BytesField(6, Entry("io.kubernetes.cri.container-type", "sandbox")) + NumberField(9, 100);
}

std::string Mount(const std::string& source, const std::string& option) {
  return BytesField(1, "/models") + BytesField(2, option == "rbind" ? "" : option) +
         BytesField(3, source) + BytesField(4, "ro") + BytesField(4, option);
}

std::string Box() {
  return BytesField(1, "box") + BytesField(3, "engine") + BytesField(6, Entry("ppc.workers", "2")) +
         BytesField(7, "serve") + BytesField(7, "/models/qwen") + BytesField(8, "HF_HOME=/hub=1") +
         BytesField(9, Mount("/var/lib/models", "rbind")) + BytesField(9, Mount("tmpfs", "tmpfs")) +
         NumberField(12, 4321);
}

class PluginTest : public ::testing::Test {
 protected:
  static std::string Request(const std::string& method, const std::string& payload,
                             uint32_t stream = 7) {
    return Encode({Side::kPlugin, Kind::kRequest, stream,
                   BytesField(1, "nri.pkg.api.v1alpha1.Plugin") + BytesField(2, method) +
                       BytesField(3, payload)});
  }

  // What the runtime reads in answer.
  std::string Answer(const std::string& method, const std::string& payload) {
    done_.clear();
    EXPECT_TRUE(plugin_.Take(Request(method, payload)).ok()) << method;
    Demultiplexer back;
    for (const std::string& sent : sent_) back.Put(sent);
    sent_.clear();
    const Result<std::optional<Message>> message = back.Next();
    EXPECT_TRUE(message.ok() && message->has_value()) << method;
    EXPECT_EQ((*message)->side, Side::kPlugin);
    EXPECT_EQ((*message)->kind, Kind::kResponse);
    EXPECT_EQ((*message)->stream, 7U);
    EXPECT_TRUE(BytesOf((*message)->payload, 1).empty()) << method;
    return std::string(BytesOf((*message)->payload, 2));
  }

  std::vector<std::string> sent_;
  std::vector<Event> events_;
  std::vector<std::string> done_;  // in order
  Plugin plugin_{[this](const std::string& bytes) {
                   sent_.push_back(bytes);
                   done_.push_back("answer");
                   return Ok();
                 },
                 [this](const Event& event) {
                   events_.push_back(event);
                   done_.push_back("event");
                 }};
};

TEST_F(PluginTest, RegistersAsTheProtocolHasIt) {
  ASSERT_TRUE(plugin_.Register("ppc", "50").ok());
  const std::string request =
      "\x0a\x1cnri.pkg.api.v1alpha1.Runtime\x12\x0eRegisterPlugin\x1a\x09\x0a\x03ppc\x12\x02"
      "50"s;
  EXPECT_EQ(sent_.at(0), "\0\0\0\2\0\0\0\x43\0\0\0\x39\0\0\0\1\1\0"s + request);
  EXPECT_EQ(Request("Shutdown", "", 9).substr(0, 18),
            "\0\0\0\1\0\0\0\x33\0\0\0\x29\0\0\0\x09\1\0"s);
}

TEST_F(PluginTest, AsksForTheEventsOfContainersThatItNeeds) {
  EXPECT_EQ(Answer("Configure", BytesField(2, "containerd")), "\x10\xa8\x04");
  EXPECT_EQ(Answer("Synchronize", BytesField(1, Pod()) + NumberField(3, 1)), "\x10\x01");
  EXPECT_EQ(Answer("Synchronize", BytesField(1, Pod())), "");
  EXPECT_EQ(Answer("SomethingNew", ""), "");
  EXPECT_TRUE(events_.empty());
}

TEST_F(PluginTest, TellsOfACreatedContainerBehindTheAnswer) {
  EXPECT_EQ(Answer("CreateContainer", BytesField(1, Pod()) + BytesField(2, Box())), "");
  EXPECT_EQ(done_, (std::vector<std::string>{"answer", "event"}));
  ASSERT_EQ(events_.size(), 1U);
  EXPECT_EQ(events_[0].what, Event::What::kCreate);
  const oci::Container& box = events_[0].container;
  EXPECT_EQ(box.id, "box");
  EXPECT_EQ(box.pid, 100);
  EXPECT_EQ(box.Annotation("ppc.model"), "/models/qwen");
  EXPECT_EQ(box.Annotation("ppc.workers"), "2");
  EXPECT_EQ(box.Annotation("io.kubernetes.cri.container-type"), "");
  EXPECT_EQ(box.Annotation("io.kubernetes.container.name"), "engine");
  EXPECT_EQ(box.command, (std::vector<std::string>{"serve", "/models/qwen"}));
  EXPECT_EQ(box.environment.at("HF_HOME"), "/hub=1");
  ASSERT_EQ(box.mounts.size(), 2U);
  EXPECT_EQ(box.mounts[0].destination, "/models");
  EXPECT_EQ(box.mounts[0].source, "/var/lib/models");
  EXPECT_EQ(box.mounts[1].source, "");
}

TEST_F(PluginTest, TellsOfAStartBeforeTheAnswer) {
  const std::string both = BytesField(2, Pod()) + BytesField(3, Box());
  EXPECT_EQ(Answer("StateChange", NumberField(1, 6) + both), "");
  EXPECT_EQ(done_, (std::vector<std::string>{"event", "answer"}));
  EXPECT_EQ(Answer("StartContainer", BytesField(1, Pod()) + BytesField(2, Box())), "");
  EXPECT_EQ(Answer("StateChange", NumberField(1, 7) + both), "");  // of no interest
  ASSERT_EQ(events_.size(), 2U);
  for (const Event& event : events_) {
    EXPECT_EQ(event.what, Event::What::kStart);
    EXPECT_EQ(event.container.pid, 4321);
    EXPECT_FALSE(event.container.has_stopped);
  }
}

TEST_F(PluginTest, TellsOfAStopWithoutItsPod) {
  EXPECT_EQ(Answer("StopContainer", BytesField(2, Box())), "");
  ASSERT_EQ(events_.size(), 1U);
  EXPECT_EQ(events_[0].what, Event::What::kStop);
  EXPECT_TRUE(events_[0].container.has_stopped);
}

TEST_F(PluginTest, ABrokenContainerIsAnsweredAndIgnored) {
  for (const std::string& box : {""s, BytesField(1, "../box"), "\x0a\x7f"s, "\xff\xff\xff"s}) {
    EXPECT_EQ(Answer("CreateContainer", BytesField(1, Pod()) + BytesField(2, box)), "");
  }
  EXPECT_TRUE(events_.empty());
}

TEST_F(PluginTest, TakesBytesCutAnywhere) {
  const std::string bytes =
      Request("CreateContainer", BytesField(1, Pod()) + BytesField(2, Box()), 1) +
      Request("StopContainer", BytesField(2, Box()), 3);
  for (const char byte : bytes) ASSERT_TRUE(plugin_.Take({&byte, 1}).ok());
  EXPECT_EQ(events_.size(), 2U);
  EXPECT_EQ(sent_.size(), 2U);
}

// A ttrpc message may come in several frames, as the header and the rest do from some runtimes.
TEST_F(PluginTest, TakesAMessageInSeveralFrames) {
  const std::string whole = Request("StopContainer", BytesField(2, Box())).substr(8);
  const auto frame = [](const std::string& part) {
    return "\0\0\0\1\0\0\0"s + static_cast<char>(part.size()) + part;
  };
  ASSERT_TRUE(plugin_.Take(frame(whole.substr(0, 10))).ok());
  ASSERT_TRUE(plugin_.Take("\0\0\0\5\0\0\0\2xx"s).ok());  // another connection's
  EXPECT_TRUE(events_.empty());
  ASSERT_TRUE(plugin_.Take(frame(whole.substr(10, 100))).ok());
  ASSERT_TRUE(plugin_.Take(frame(whole.substr(110))).ok());
  EXPECT_EQ(events_.size(), 1U);
}

TEST_F(PluginTest, WhatIsNoNriEndsTheConnection) {
  EXPECT_EQ(plugin_.Take("HTTP/1.1 400 Bad Request\r\n").error().code, EPROTO);
}

TEST_F(PluginTest, ARefusalSaysWhy) {
  const std::string status = NumberField(1, 3) + BytesField(2, "invalid plugin index");
  const Status taken =
      plugin_.Take(Encode({Side::kRuntime, Kind::kResponse, 1, BytesField(1, status)}));
  ASSERT_EQ(taken.error().code, EACCES);
  EXPECT_NE(taken.error().message.find("invalid plugin index"), std::string::npos);
}

TEST(FieldsTest, KnowsAllEncodingsAndBreaksAtTheEnd) {
  const std::string text =
      "\x08\xac\x02\x11"
      "12345678"
      "\x1a\x03"
      "abc"
      "\x25"
      "1234"s;
  Fields fields(text);
  std::vector<std::pair<uint32_t, uint64_t>> seen;
  for (Field field; fields.Next(&field);)
    seen.emplace_back(field.key, field.number + field.bytes.size());
  EXPECT_EQ(seen, (std::vector<std::pair<uint32_t, uint64_t>>{{1, 300}, {2, 0}, {3, 3}, {4, 0}}));
  EXPECT_FALSE(fields.is_broken());
  for (const std::string& wrong :
       {"\x08"s,
        "\x1a\x04"
        "abc"s,
        "\x0b"s, "\x02\x01"s, "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"s}) {
    Fields broken(wrong);
    Field field;
    EXPECT_FALSE(broken.Next(&field));
    EXPECT_TRUE(broken.is_broken());
  }
}

}  // namespace
}  // namespace ppc::nri
