// SPDX-License-Identifier: Apache-2.0
// --json of every verb that the program has: an object with a schema, whose keys and lists come in
// the same order each time.
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "tests/unit/supervisor/daemon_fixture.h"
#include "tools/ppcctl/program.h"

namespace ppc::control {
namespace {

namespace fs = std::filesystem;
using Ordered = nlohmann::ordered_json;

// Verbs that cannot run here, and where their JSON is tested.
const std::map<std::string, std::string> kElsewhere = {
    {"run", "its output is CMD's: CtlOutputTest.RunWithJsonLeavesTheOutputToTheCommand"},
    {"watch-xllm", "needs an etcd and runs until it is ended: tests/all/xllm"}};

struct Call {
  std::vector<std::string> words;
  int exit_status = 0;
  bool changes = false;  // a second time it would find something else
};

// What is the same each time: keys in their order, lists, and texts but for their numbers.
Ordered Shape(const Ordered& value) {
  if (value.is_object()) {
    Ordered shape = Ordered::array();
    for (const auto& [key, member] : value.items()) shape.push_back({key, Shape(member)});
    return shape;
  }
  if (value.is_array()) {
    Ordered shape = Ordered::array();
    for (const Ordered& element : value) shape.push_back(Shape(element));
    return shape;
  }
  if (!value.is_string()) return nullptr;
  std::string text = value.get<std::string>();
  std::erase_if(text, [](char c) { return (c >= '0' && c <= '9') || c == '.'; });
  return text;
}

class CtlJsonTest : public DaemonTest {
 protected:
  void SetUp() override {
    DaemonTest::SetUp();
    for (const char* directory : {"/home", "/tmp", "/model", "/cache/k"}) {
      fs::create_directories(dir_ + directory);
    }
    fs::permissions(dir_ + "/home", fs::perms::owner_all);
    const std::string json =
        R"({"m.q_proj.weight":{"dtype":"U8","shape":[64,1024],"data_offsets":[0,65536]}})";
    std::string head(8, '\0');
    head[0] = static_cast<char>(json.size());
    for (const char* file :
         {"/model/x-00002-of-00002.safetensors", "/model/x-00001-of-00002.safetensors"}) {
      std::ofstream(dir_ + file) << head + json << std::string(65536, 'x');
    }
    std::ofstream(dir_ + "/cache/k/kernel") << "binary";
    for (const char* node : {"a", "b"}) {
      std::ofstream(dir_ + "/" + node + ".json")
          << DumpJson({{"node", node}, {"models", {{{"model", "m"}, {"bytes", 1000}}}}});
    }
    for (const std::string& entry :
         {"HOME=" + dir_ + "/home", "TMPDIR=" + dir_ + "/tmp", "XDG_RUNTIME_DIR=" + dir_ + "/tmp",
          "PPC_ARTIFACT_DIR=" + dir_ + "/artifacts", "TRITON_CACHE_DIR=" + dir_ + "/cache",
          "HF_HUB_CACHE=" + dir_ + "/hub"}) {
      environment_.push_back(entry);
    }
  }

  // In an order in which all can be done, and at whose end all is as it was.
  std::vector<Call> Calls() const {
    const std::string model = dir_ + "/model";
    std::vector<Call> calls = {
        {{"off"}, 0, true},
        {{"on"}, 0, true},
        {{"reg_policy", "/sys", "beta"}, 0, true},
        {{"policy", "/proc", R"({"op":"hello"})"}},
        {{"service", "start", "/proc", "--id", "svc-b"}, 0, true},
        {{"service", "start", "/proc", "--id", "svc-a"}, 0, true},
        {{"service", "phase", "svc-a", "weights", "/proc"}, 0, true},
        {{"service", "ready", "/proc", "--id", "svc-a"}, 0, true},
        {{"wait", "/proc", "--id", "svc-a"}},
        {{"is-active", "/proc"}},
        {{"bind-pid", "42", "/proc", "--id", "svc-a", "--worker", "0"}},
        {{"explain-pid", "1"}},
        {{"list"}},
        {{"status"}},
        {{"events"}},
        {{"logs"}},
        {{"metrics"}},
        {{"top", "--interval", "0.05", "--count", "1"}},
        {{"report", "--from", dir_ + "/start.json"}},
        // /proc has links wherever processes are.
        {{"doctor", model}, 1},
        {{"support-bundle", "--output", dir_ + "/bundle.tar.zst"}, 0, true},
        {{"xpus"}},
        {{"node", "--name", "here"}},
        {{"place", "--model", "m", "--from", dir_ + "/b.json", "--from", dir_ + "/a.json"}},
        {{"plan", model}},
        {{"residency", model}},
        {{"drop", model}},
        {{"warm", model}, 0, true},
        {{"service", "failed", "/proc", "--id", "svc-a"}, 0, true},
        {{"service", "stop", "/proc", "--id", "svc-a"}, 0, true},
        {{"service", "stop", "/proc", "--id", "svc-b"}, 0, true},
        {{"rm_policy", "/sys"}, 0, true},
        {{"service-id", "--param", "b=1", "--param", "a=1"}},
    };
    for (Call& call : CallsOfStores()) calls.push_back(std::move(call));
    return calls;
  }
  std::vector<Call> CallsOfStores() const {
    const std::string model = dir_ + "/model";
    return {
        {{"template", "synth", model, "--root", dir_, "--id", "made-b"}, 0, true},
        {{"template", "synth", model, "--root", dir_, "--id", "made-a", "--tp", "2"}, 0, true},
        {{"template", "list"}},
        {{"template", "show", "made-a"}},
        {{"template", "dump", "made-a"}},
        {{"template", "diff", "made-a", "made-b"}, 1},
        {{"template", "verify", "made-a", "--root", dir_}},
        {{"template", "merge", dir_ + "/templates/ma/made-a.ppct"}, 0, true},
        {{"template", "rerecord", "made-a"}, 0, true},
        {{"template", "rm", "made-a"}, 0, true},
        {{"template", "rm", "made-b"}, 0, true},
        {{"service", "env", "svc-a", "B=1", "A=1"}, 0, true},
        {{"service", "env", "svc-a"}},
        {{"artifact", "capture", "--id", "svc-a"}, 0, true},
        {{"artifact", "list"}},
        {{"artifact", "verify"}},
        {{"artifact", "restore", "--id", "svc-a"}},
        {{"artifact", "rm", "svc-a"}, 0, true},
    };
  }

  Ordered ShapeOf(const Call& call) {
    std::vector<std::string> words = call.words;
    words.emplace_back("--json");
    const ProcessResult result = Ctl(words);
    EXPECT_EQ(result.exit_status, call.exit_status) << Name(call) << ": " << result.err;
    // `top` and `events` print a line for each.
    const bool is_lines = call.words[0] == "top" || call.words[0] == "events";
    Ordered shapes = Ordered::array();
    std::istringstream out(result.out);
    for (std::string text; std::getline(out, text, is_lines ? '\n' : '\0');) {
      const Ordered json = Ordered::parse(text, nullptr, /*allow_exceptions=*/false);
      EXPECT_TRUE(json.is_object()) << Name(call) << ": " << result.out;
      if (!json.is_object()) return nullptr;
      EXPECT_EQ(json.value("schema", 0), 1) << Name(call);
      shapes.push_back(Shape(json));
    }
    EXPECT_NE(shapes.size(), 0U) << Name(call);
    fs::remove(dir_ + "/bundle.tar.zst");
    return shapes;
  }
  static std::string Name(const Call& call) {
    std::string name;
    for (const std::string& word : call.words) name += (name.empty() ? "" : " ") + word;
    return name;
  }
};

TEST_F(CtlJsonTest, EveryVerbIsCalledHereOrElsewhere) {
  std::set<std::string> here;
  for (const cli::Verb& verb : ctl::CtlProgram().verbs) {
    const std::string name = verb.name;
    bool is_here = false;
    for (const Call& call : Calls()) is_here |= (Name(call) + " ").starts_with(name + " ");
    EXPECT_NE(is_here, kElsewhere.contains(name)) << name << " is in neither list, or in both";
    if (is_here) here.insert(name);
  }
  EXPECT_EQ(here.size() + kElsewhere.size(), ctl::CtlProgram().verbs.size())
      << "kElsewhere has a verb that there is no more";
}

TEST_F(CtlJsonTest, EveryVerbTellsTheSameInTheSameOrder) {
  StartDaemon();
  // The policy waits for the service that failed.
  ASSERT_TRUE(Register({{"wait_s", 60}}).value("ok", false));
  ASSERT_EQ(Ctl({"run", "--report", dir_ + "/start.json", "/proc", "--", "/bin/true"}).exit_status,
            0);
  std::map<std::string, Ordered> first;
  for (const bool is_second : {false, true}) {
    ASSERT_TRUE(WaitForState("running"));
    for (const Call& call : Calls()) {
      const Ordered shape = ShapeOf(call);
      if (!call.changes || is_second) {
        EXPECT_EQ(shape, call.changes ? first[Name(call)] : ShapeOf(call)) << Name(call);
      }
      first[Name(call)] = shape;
      if (call.words[0] == "on" || call.words[0] == "reg_policy") {
        ASSERT_TRUE(WaitForState("running", call.words[0] == "on" ? kMount : kOtherMount));
      }
    }
  }
}

}  // namespace
}  // namespace ppc::control
