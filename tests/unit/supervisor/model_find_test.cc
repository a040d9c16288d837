// SPDX-License-Identifier: Apache-2.0
// What `ppcctl run` makes of a command's words: its model, its program, its service.
#include "tools/ppcctl/model_find.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "daemon/wire/service_id.h"
#include "tests/unit/child.h"
#include "tests/unit/temp_tree.h"
#include "tools/ppcctl/command_words.h"
#include "tools/ppcctl/model_service.h"
#include "tools/ppcctl/running_service.h"

namespace ppc::ctl {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

class ModelFindTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Put("llama/model.safetensors");
    Put("llama/config.json");
    Put("gguf/a.gguf");
    Put("old/pytorch_model.bin");
    Put("text/notes.txt");
    PutInHub("acme--tiny", "abc123", "main");
  }

  void Put(const std::string& file, const std::string& text = "x") {
    tree_.Write("/" + file, text);
  }
  void PutInHub(const std::string& name, const std::string& commit, const std::string& branch) {
    const std::string repository = "hub/models--" + name;
    Put(repository + "/blobs/0f" + commit);
    Put(repository + "/refs/" + branch, commit + "\n");
    tree_.Link("/" + repository + "/snapshots/" + commit + "/model.safetensors",
               "../../blobs/0f" + commit);
  }
  // Relative to the test's directory; "" = none.
  std::string Find(Words words) {
    const std::optional<FoundModel> model = FindModel(words, dir_ + "/hub");
    return model ? model->path.substr(dir_.size() + 1) : "";
  }
  std::string DirectoryOf(Words words) {
    const std::optional<FoundModel> model = FindModel(words, dir_ + "/hub");
    return model ? model->directory.substr(dir_.size() + 1) : "";
  }

  const TempTree tree_;
  const std::string dir_ = fs::canonical(tree_.Root());
};

TEST_F(ModelFindTest, FindsFilesAndDirectoriesAmongTheWords) {
  EXPECT_EQ(Find({"load", dir_ + "/llama"}), "llama");
  EXPECT_EQ(Find({"load", dir_ + "/llama/"}), "llama");
  EXPECT_EQ(Find({"load", "--x=" + dir_ + "/old"}), "old");
  EXPECT_EQ(Find({"llama-server", "-m", dir_ + "/gguf/a.gguf"}), "gguf/a.gguf");
  EXPECT_EQ(DirectoryOf({"llama-server", "-m", dir_ + "/gguf/a.gguf"}), "gguf");
  EXPECT_EQ(Find({"load", dir_ + "/llama/model.safetensors"}), "llama/model.safetensors");
  EXPECT_EQ(Find({"load", dir_ + "/text", dir_ + "/text/notes.txt", dir_ + "/nothing"}), "");
  EXPECT_EQ(Find({dir_ + "/llama"}), "") << "the program itself is no model";
}

TEST_F(ModelFindTest, OptionsThatNameTheModelComeFirst) {
  EXPECT_EQ(Find({"serve", dir_ + "/old", "--model", dir_ + "/llama"}), "llama");
  EXPECT_EQ(Find({"serve", dir_ + "/old", "--model=" + dir_ + "/llama"}), "llama");
  EXPECT_EQ(Find({"python3", "-m", "server", "--model", dir_ + "/llama"}), "llama");
  EXPECT_EQ(Find({"python3", "-m", "server", dir_ + "/llama"}), "llama");
}

TEST_F(ModelFindTest, LooksIntoTheScriptOfAShell) {
  EXPECT_EQ(Find(WordsOf({"sh", "-c", "echo up; exec load '" + dir_ + "/llama'>/dev/null"})),
            "llama");
}

TEST_F(ModelFindTest, FindsRelativeNames) {
  const fs::path before = fs::current_path();
  fs::current_path(dir_);
  EXPECT_EQ(Find({"load", "llama"}), "llama");
  EXPECT_EQ(Find({"load", "gguf/a.gguf"}), "gguf/a.gguf");
  fs::current_path(dir_ + "/gguf");
  EXPECT_EQ(Find({"load", "a.gguf"}), "gguf/a.gguf");
  fs::current_path(before);
}

TEST_F(ModelFindTest, FindsHubNamesAndRegistersTheWholeRepository) {
  const std::string snapshot = "hub/models--acme--tiny/snapshots/abc123";
  EXPECT_EQ(Find({"vllm", "serve", "acme/tiny"}), snapshot);
  EXPECT_EQ(DirectoryOf({"vllm", "serve", "acme/tiny"}), "hub/models--acme--tiny");
  EXPECT_EQ(Find({"llama-server", "-hf", "acme/tiny:Q4"}), snapshot);
  EXPECT_EQ(Find({"x", dir_ + "/hub/models--acme--tiny"}), snapshot);
  EXPECT_EQ(Find({"x", "--model", "acme/other"}), "");
  EXPECT_EQ(Find({"x", "acme/../tiny"}), "");
  // The links of a snapshot, and what they lead to, stay inside.
  EXPECT_EQ(DirectoryOf({"x", dir_ + "/" + snapshot}), "hub/models--acme--tiny");
  EXPECT_EQ(Find({"x", dir_ + "/" + snapshot + "/model.safetensors"}),
            snapshot + "/model.safetensors");
  EXPECT_EQ(DirectoryOf({"x", dir_ + "/" + snapshot + "/model.safetensors"}),
            "hub/models--acme--tiny");
}

TEST_F(ModelFindTest, TakesTheRevisionAskedFor) {
  PutInHub("acme--tiny", "def456", "next");
  const std::string snapshots = "hub/models--acme--tiny/snapshots/";
  EXPECT_EQ(Find({"x", "--model", "acme/tiny"}), snapshots + "abc123");
  EXPECT_EQ(Find({"x", "--model", "acme/tiny", "--revision", "next"}), snapshots + "def456");
  EXPECT_EQ(Find({"x", "--model", "acme/tiny", "--revision", "def456"}), snapshots + "def456");
  EXPECT_EQ(Find({"x", "--model", "acme/tiny", "--revision", "none"}), "");
  EXPECT_EQ(FindModel({"x", "--model", "acme/tiny", "--download-dir", "/nothing"}, dir_ + "/hub"),
            std::nullopt);
}

TEST_F(ModelFindTest, TheHubCacheIsWhereHuggingFaceLooks) {
  const char* names[] = {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"};
  for (const char* name : names) unsetenv(name);
  setenv("HOME", "/h", 1);
  EXPECT_EQ(HubCacheFromEnvironment(), "/h/.cache/huggingface/hub");
  setenv("HF_HOME", "/hf", 1);
  EXPECT_EQ(HubCacheFromEnvironment(), "/hf/hub");
  setenv("HF_HUB_CACHE", "/cache", 1);
  EXPECT_EQ(HubCacheFromEnvironment(), "/cache");
  for (const char* name : names) unsetenv(name);
}

TEST(CommandWords, TellTheProgramBehindItsWrappers) {
  const auto program = [](Words command) { return ProgramOf(WordsOf(command)); };
  EXPECT_EQ(program({"/opt/bin/llama-server", "-m", "x"}), "llama-server");
  EXPECT_EQ(program({"env", "A=1", "numactl", "-N", "0", "/usr/bin/vllm", "serve"}), "vllm");
  EXPECT_EQ(program({"python3.11", "-u", "/srv/load.py", "x"}), "load.py");
  EXPECT_EQ(program({"python3", "-m", "vllm.entrypoints.openai.api_server"}),
            "vllm.entrypoints.openai.api_server");
  EXPECT_EQ(program({"python3", "-c", "import torch"}), "python");
  EXPECT_EQ(program({"bash", "-lc", "exec 'llama-server' -m x"}), "llama-server");
  EXPECT_EQ(program({"torchrun", "--nproc_per_node", "4", "load.py"}), "load.py");
  // A container's, which the hook sees.
  EXPECT_EQ(program({"ppcctl", "run", "--id", "x1", "/m", "--", "env", "A=1", "vllm", "serve"}),
            "vllm");
  EXPECT_EQ(program({"tini", "ppcctl", "run", "--artifacts", "--", "python3", "x.py"}), "x.py");
}

TEST_F(ModelFindTest, TheServiceIdHasWhatChangesReading) {
  const std::string model = dir_ + "/llama";
  const auto id = [&](Words words) {
    return control::MakeServiceName(ServiceParams(model, WordsOf(words)))->id;
  };
  const std::string plain = id({"vllm", "serve", model, "-tp", "2"});
  EXPECT_EQ(id({"/usr/bin/vllm", "serve", model, "--tensor-parallel-size=2", "--port", "80"}),
            plain);
  EXPECT_NE(id({"vllm", "serve", model, "--tp", "4"}), plain);
  EXPECT_NE(id({"sglang", "serve", model, "-tp", "2"}), plain);
  EXPECT_EQ(ServiceParams(model, {"x", "--tp", "2"})["tp"], 2);
  EXPECT_FALSE(ServiceParams(model, {"x", "--tp", "auto"}).contains("tp"));
  EXPECT_EQ(ServiceParams(dir_ + "/gguf/a.gguf", {"x"})["model_path"], dir_ + "/gguf");
  Put("llama/config.json", "another");
  EXPECT_NE(id({"vllm", "serve", model, "-tp", "2"}), plain);
}

TEST_F(ModelFindTest, PipelinesOnnxAndTensorizersFilesAreModels) {
  Put("flux/model_index.json", "{}");
  Put("flux/vae/diffusion_pytorch_model.safetensors");
  Put("onnx/model.onnx");
  Put("tz/model.tensors");
  EXPECT_EQ(Find({"load", dir_ + "/flux"}), "flux");
  EXPECT_EQ(DirectoryOf({"load", dir_ + "/flux"}), "flux");
  EXPECT_EQ(Find({"load", dir_ + "/onnx/model.onnx"}), "onnx/model.onnx");
  EXPECT_EQ(Find({"load", dir_ + "/tz"}), "tz");
}

TEST_F(ModelFindTest, ExpertsAndFormatsAreToldToThePolicy) {
  const std::string model = dir_ + "/llama";
  const auto params = [&](Words words) { return ServiceParams(model, words); };
  EXPECT_EQ(params({"vllm", "serve", model, "--enable-expert-parallel"})["ep"], true);
  EXPECT_EQ(params({"sglang", "--model-path", model, "--ep-size", "4"})["ep"], 4);
  EXPECT_FALSE(params({"vllm", "serve", model}).contains("ep"));
  EXPECT_EQ(params({"vllm", "serve", model, "--load-format", "dummy"})["load_format"], "dummy");
  EXPECT_EQ(params({"vllm", "serve", model, "-dp", "2"})["dp"], 2);
  EXPECT_EQ(params({"vllm", "serve", model, "--quantization", "fp8"})["quantization"], "fp8");
  EXPECT_EQ(params({"sglang", "x", "--disaggregation-mode", "prefill"})["role"], "prefill");
  EXPECT_EQ(params({"llama-server", "-m", model, "-md", "/d.gguf"})["draft"], "/d.gguf");
  const nlohmann::json vllm =
      params({"vllm", "serve", model, "--kv-transfer-config", R"({"kv_role":"kv_both"})",
              "--speculative-config", R"({"model":"/draft","k":3})"});
  EXPECT_EQ(vllm["role"], "kv_both");
  EXPECT_EQ(vllm["draft"], "/draft");
  EXPECT_FALSE(params({"vllm", "serve", model, "--kv-transfer-config", "{"}).contains("role"));
}

TEST(FindPlace, PrefersWhatIsRegisteredAround) {
  const Json mounts = {{{"mount", "/m"}, {"policy", "maio"}, {"state", "running"}},
                       {{"mount", "/m/ppc"}, {"policy", nullptr}, {"state", "native"}}};
  ServiceRequest request;
  const auto place = [&](const std::string& directory) {
    request.directory = directory;
    const Place found = FindPlace(mounts, request);
    return found.directory + " " + found.policy;
  };
  EXPECT_EQ(place("/m"), "/m maio");
  EXPECT_EQ(place("/m/x"), "/m maio");
  EXPECT_EQ(place("/m/ppc/x"), "/m/ppc ");
  EXPECT_EQ(place("/mx"), "/mx ");
  request.policy = "readahead";
  EXPECT_EQ(place("/m/x"), "/m maio") << "refused there";
}

}  // namespace
}  // namespace ppc::ctl
