// SPDX-License-Identifier: Apache-2.0
// `ppcctl node` and `ppcctl place` from the command line: wrong usage, files, etcd that is away.
#include <filesystem>
#include <fstream>

#include "policies/maio/template/template.h"
#include "tests/unit/supervisor/verbs_fixture.h"

namespace ppc::control {
namespace {

class PlaceVerbsTest : public DaemonTest {
 protected:
  std::string Write(const std::string& node, uint64_t resident) {
    const std::string file = dir_ + "/" + node + ".json";
    std::ofstream(file) << DumpJson(
        {{"node", node}, {"models", {{{"model", "m"}, {"bytes", 1000}, {"resident", resident}}}}});
    return file;
  }
  void Expect(const std::vector<std::string>& words, int status, const std::string& out,
              const std::string& err) {
    const ProcessResult result = Ctl(words);
    EXPECT_EQ(result.exit_status, status) << result.err;
    EXPECT_EQ(result.out, out);
    EXPECT_NE(result.err.find(err), std::string::npos) << result.err;
  }
};

TEST_F(PlaceVerbsTest, FilesOfNodesAreEnough) {
  const std::string a = Write("a", 0);
  const std::string b = Write("b", 1000);
  Expect({"place", "--model", "m", "--from", a, "--from", b}, 0, "b\n", "");
  Expect({"place", "--model", "m", "--from", a, "--from", b, "--nodes", "a"}, 0, "a\n", "");
  Expect({"place", "--model", "m", "--from", a, "--nodes", "b"}, 1, "", "can start 'm'");
  Expect({"place", "--model", "x", "--from", a}, 1, "", "can start 'x'");
  const ProcessResult explained =
      Ctl({"place", "--model", "m", "--from", a, "--from", b, "--explain"});
  EXPECT_NE(explained.out.find("*  b"), std::string::npos) << explained.out;
  const ProcessResult json = Ctl({"place", "--model", "m", "--from", a, "--from", b, "--json"});
  const Json answer = Value(ParseJsonObject(json.out, "answer"));
  EXPECT_EQ(answer["node"], "b");
  EXPECT_EQ(answer["nodes"].size(), 2u);
}

TEST_F(PlaceVerbsTest, WhatIsWrongIsNamed) {
  const std::string a = Write("a", 0);
  Expect({"place"}, 2, "", "--model NAME");
  Expect({"place", "--model", "m"}, 2, "", "--etcd URL or --from FILE");
  Expect({"place", "--model", "m", "--from", a, "--etcd", "http://h:1"}, 2, "", "one of them");
  Expect({"place", "--model", "m", "--etcd", "h:1"}, 2, "", "http://HOST:PORT");
  Expect({"place", "--model", "m", "--from", dir_ + "/none"}, 1, "", "/none");
  std::ofstream(a) << "{";
  Expect({"place", "--model", "m", "--from", a}, 1, "", "left out: ");
  Expect({"node", "--publish", "h:1"}, 2, "", "http://HOST:PORT");
  Expect({"node", "--publish", "http://h:1", "--name", "a/b"}, 2, "", "--name");
  Expect({"node", "--publish", "http://h:1", "--interval", "0"}, 2, "", "--interval");
  // No server listens at port 1.
  Expect({"place", "--model", "m", "--etcd", "http://127.0.0.1:1", "--last", dir_ + "/last"}, 1, "",
         "nothing is known from before");
  std::ofstream(dir_ + "/last") << DumpJson(
      {{"time_s", 1},
       {"nodes",
        {{{"node", "z"}, {"models", {{{"model", "m"}, {"bytes", 10}, {"resident", 10}}}}}}}});
  Expect({"place", "--model", "m", "--etcd", "http://127.0.0.1:1", "--last", dir_ + "/last"}, 0,
         "z\n", "using what was known");
}

TEST_F(PlaceVerbsTest, ANodeTellsOfItself) {
  EXPECT_EQ(Ctl({"node"}).exit_status, 3);
  StartDaemon();
  const ProcessResult told = Ctl({"node", "--name", "here", "--json"});
  const Json node = Value(ParseJsonObject(told.out, "node"));
  EXPECT_EQ(node["node"], "here");
  EXPECT_GT(node["memory_bytes"].get<uint64_t>(), 0u);
  EXPECT_TRUE(node["models"].empty());
  EXPECT_NE(Ctl({"node"}).out.find("IN MEMORY"), std::string::npos);
}

TEST_F(PlaceVerbsTest, ANodeKeepsItselfInTheMetrics) {
  StartDaemon();
  EXPECT_EQ(Ctl({"metrics"}).out.find("ppc_node_memory_bytes"), std::string::npos);
  // timeout(1) ends it by SIGTERM.
  const ProcessResult told = RunProcess(
      {"/usr/bin/timeout", "3", kPpcctl, "node", "--metrics", "--interval", "1"}, environment_);
  EXPECT_EQ(told.exit_status, 124) << told.err;
  EXPECT_EQ(told.err, "");
  EXPECT_NE(Ctl({"metrics"}).out.find("ppc_node_memory_bytes{kind=\"all\"} "), std::string::npos);
}

TEST_F(VerbsTest, NodeAndListKnowATemplate) {
  environment_.push_back("PPC_TEMPLATE_DIR=" + dir_ + "/templates");
  Start();
  ASSERT_EQ(Ctl({"reg_policy", "--backend", "poll", model_, "alpha"}).exit_status, 0);
  const auto has_template = [this] { return Told({"node"})["models"][0]["template"]; };
  EXPECT_EQ(has_template(), false);
  maio::Template t;
  t.service_id = "svc-node";
  t.flags = maio::kComplete | maio::kTraced;
  t.files.push_back({.path = "a.safetensors", .size = kModelBytes, .mtime_ns = 1});
  for (const uint32_t id : {maio::kCommonGroup, 0U, 1U}) {
    t.groups.push_back({.id = id});
    t.groups.back().extents.push_back({0, 0, kModelBytes / 4096});
  }
  std::string error;
  fs::create_directories(dir_ + "/templates");
  ASSERT_EQ(maio::Store(dir_ + "/templates", t, &error), 0) << error;
  EXPECT_EQ(has_template(), true);
  EXPECT_TRUE(Has(Ctl({"template", "list"}).out, "1 files  2 workers"));
}

}  // namespace
}  // namespace ppc::control
