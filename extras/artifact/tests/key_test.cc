// SPDX-License-Identifier: Apache-2.0
// The key of a bundle, and the directories of engines.
#include "extras/artifact/key.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <map>

#include "extras/artifact/restore.h"
#include "extras/artifact/roots.h"
#include "extras/artifact/tests/fixture.h"

namespace ppc::artifact {
namespace {

Environment Of(std::map<std::string, std::string> values) {
  return [values = std::move(values)](const std::string& name) {
    const auto found = values.find(name);
    return found == values.end() ? std::string() : found->second;
  };
}

class KeyTest : public ::testing::Test {
 protected:
  void Program(const std::string& path, const std::string& text) {
    tree_.Write(path, text);
    chmod(tree_.Path(path).c_str(), 0755);
  }
  Key Probed(const Probe& probe) {
    Key key;
    probe(&key);
    return key;
  }

  TempTree tree_;
};

TEST_F(KeyTest, TellsTheMachine) {
  tree_.Write("/proc/driver/nvidia/gpus/0000:17:00.0/information",
              "Model: \t\t NVIDIA H200\nIRQ:   \t 66\n");
  tree_.Write("/proc/driver/nvidia/gpus/0000:65:00.0/information",
              "Model: \t\t NVIDIA H200\nIRQ:   \t 67\n");
  tree_.Write("/sys/module/nvidia/version", "550.54.14\n");
  tree_.Write("/proc/cpuinfo",
              "processor\t: 0\nflags\t\t: fpu avx512f  amx_bf16\n\nprocessor\t: 1\nflags\t\t: x\n");
  Key key = Probed(MachineProbe({tree_.Root(), tree_.Root()}));
  EXPECT_EQ(key["gpu"], "NVIDIA H200") << "how many there are changes nothing";
  EXPECT_EQ(key["driver"], "nvidia 550.54.14");
  EXPECT_TRUE(key["cpu"].ends_with(" amx_bf16 avx512f fpu")) << key["cpu"];
}

TEST_F(KeyTest, TellsAMachineOfTheOtherVendor) {
  tree_.Write("/sys/class/kfd/kfd/topology/nodes/0/properties",
              "cpu_cores_count 8\ngfx_target_version 0\n");
  tree_.Write("/sys/class/kfd/kfd/topology/nodes/1/properties", "gfx_target_version 90402\n");
  tree_.Write("/sys/module/amdgpu/version", "6.7.0\n");
  Key key = Probed(MachineProbe({tree_.Root(), tree_.Root()}));
  EXPECT_EQ(key["gpu"], "AMD gfx 90402");
  EXPECT_EQ(key["driver"], "amdgpu 6.7.0");
  EXPECT_FALSE(Probed(MachineProbe({"/nonexistent", "/nonexistent"})).contains("gpu"));
}

TEST_F(KeyTest, ReadsPackagesBesideTheCommandsInterpreter) {
  Program("/venv/bin/python3.12",
          "\x7f"
          "ELF");
  tree_.Link("/venv/bin/python", "python3.12");
  tree_.Write("/venv/pyvenv.cfg", "include-system-site-packages = false\n");
  Program("/bin/vllm", "#!" + tree_.Path("/venv/bin/python") + "\nimport vllm\n");
  const std::string site = "/venv/lib/python3.12/site-packages/";
  tree_.Write(site + "torch-2.11.0+cu128.dist-info/METADATA", "");
  tree_.Write(site + "torch/version.py",
              "__version__ = '2.11.0+cu128'\ncuda: Optional[str] = '12.8'\n");
  tree_.Write(site + "vllm-0.15.0.dist-info/METADATA", "");
  tree_.Write(site + "flashinfer_python-0.6.1.dist-info/METADATA", "");
  tree_.Write(site + "requests-2.1.dist-info/METADATA", "");
  tree_.Write("/venv/lib/python3.11/site-packages/triton-1.0.dist-info/METADATA", "");
  const Environment environment = Of({{"PATH", tree_.Path("/none") + ":" + tree_.Path("/bin")}});
  EXPECT_EQ(Probed(PackageProbe(environment, {"env", "vllm", "serve"})),
            (Key{{"python", "python3.12"},
                 {"cuda", "12.8"},
                 {"torch", "2.11.0+cu128"},
                 {"vllm", "0.15.0"},
                 {"flashinfer_python", "0.6.1"}}));
}

TEST_F(KeyTest, PrefersWhatIsImportedFirst) {
  Program("/usr/bin/python3",
          "\x7f"
          "ELF");
  tree_.Write("/usr/lib/python3/dist-packages/torch-2.6.0.egg-info/PKG-INFO", "");
  tree_.Write("/usr/lib/python3/dist-packages/triton-3.0.dist-info/METADATA", "");
  tree_.Write("/mine/torch-2.7.0.dist-info/METADATA", "");
  Key key = Probed(PackageProbe(Of({{"PATH", tree_.Path("/usr/bin")},
                                    {"PYTHONPATH", tree_.Path("/mine")},
                                    {"CUDA_VERSION", "12.4.1"}}),
                                {}));
  EXPECT_EQ(key["torch"], "2.7.0");
  EXPECT_EQ(key["triton"], "3.0");
  EXPECT_EQ(key["cuda"], "12.4.1") << "torch does not say";
}

TEST_F(KeyTest, LooksBehindAShim) {
  Program("/pyenv/shims/python3", "#!/bin/sh\n");
  Program("/pyenv/versions/3.12.1/bin/python3.12",
          "\x7f"
          "ELF");
  tree_.Link("/pyenv/versions/3.12.1/bin/python3", "python3.12");
  tree_.Write("/pyenv/version", "3.12.1\n");
  tree_.Write("/pyenv/versions/3.12.1/lib/python3.12/site-packages/sglang-0.6.dist-info/METADATA",
              "");
  Key key = Probed(PackageProbe(Of({{"PATH", tree_.Path("/pyenv/shims")}}), {"python3"}));
  EXPECT_EQ(key["python"], "python3.12");
  EXPECT_EQ(key["sglang"], "0.6");
}

TEST_F(KeyTest, OptionsCountAndAddressesDoNot) {
  const Key one =
      Probed(CommandProbe({"vllm", "serve", "m", "--port", "8000", "--max-model-len", "4096"}));
  EXPECT_EQ(one, Probed(CommandProbe({"vllm", "serve", "m", "--max-model-len", "4096", "--port=9",
                                      "--api-key", "x"})));
  EXPECT_NE(
      one,
      Probed(CommandProbe({"vllm", "serve", "m", "--port", "8000", "--max-model-len", "8192"})));
  EXPECT_TRUE(Probed(CommandProbe({})).empty());
}

TEST_F(KeyTest, GivenPartsAreOverProbes) {
  const Probe probe = [](Key* key) { *key = {{"gpu", "NVIDIA A100"}, {"driver", "1"}}; };
  EXPECT_EQ(Value(MakeKey({probe}, {"gpu=NVIDIA H200", "quant=fp8=e4m3", "empty="})),
            (Key{{"gpu", "NVIDIA H200"}, {"driver", "1"}, {"quant", "fp8=e4m3"}, {"empty", ""}}));
  for (const char* bad : {"gpu", "=x", ""}) {
    SCOPED_TRACE(bad);
    ExpectError(MakeKey({probe}, {bad}), EINVAL, "NAME=VALUE");
  }
}

TEST_F(KeyTest, SaysWhatDiffers) {
  const std::string flags = "x86_64 " + std::string(100, 'a') + " avx2";
  const std::vector<Difference> differences =
      Differences({{"a", "1"}, {"b", "1"}, {"c", "1"}, {"cpu", flags + " amx"}},
                  {{"a", "1"}, {"b", "2"}, {"cpu", flags + " avx512"}, {"d", "3"}});
  ASSERT_EQ(differences.size(), 4U);
  EXPECT_EQ(TextOf(differences[0]), "b is '1', it was '2'");
  EXPECT_EQ(TextOf(differences[1]), "c is '1', there was none");
  EXPECT_EQ(TextOf(differences[2]), "cpu has gained 'amx' and lost 'avx512'");
  EXPECT_EQ(TextOf(differences[3]), "d was '3', there is none here");
  EXPECT_NE(KeyIdOf({{"a", "1"}}), KeyIdOf({{"a", "2"}}));
}

std::map<std::string, std::string> Directories(const std::vector<Root>& roots) {
  std::map<std::string, std::string> directories;
  for (const Root& root : roots) directories[root.name] = root.directory;
  return directories;
}

using Map = std::map<std::string, std::string>;

TEST(Roots, AreWhereEnginesKeepThem) {
  EXPECT_EQ(Directories(DefaultRoots(Of({{"HOME", "/home/u"}, {"USER", "u/v"}}))),
            (Map{{"vllm", "/home/u/.cache/vllm"},
                 {"inductor", "/tmp/torchinductor_u_v"},
                 {"inductor-headers", "/tmp/torchinductor_u_v/precompiled_headers"},
                 {"triton", "/home/u/.triton/cache"},
                 {"flashinfer", "/home/u/.cache/flashinfer"},
                 {"deepgemm", "/home/u/.deep_gemm"},
                 {"cuda", "/home/u/.nv/ComputeCache"}}));
}

TEST(Roots, FollowTheEnginesVariables) {
  EXPECT_EQ(Directories(DefaultRoots(Of({{"HOME", "/home/u"},
                                         {"USER", "u"},
                                         {"VLLM_CACHE_ROOT", "/c/vllm/"},
                                         {"TORCHINDUCTOR_CACHE_DIR", "/c/inductor"},
                                         {"TRITON_CACHE_DIR", "/c/triton"},
                                         {"FLASHINFER_WORKSPACE_BASE", "/c"},
                                         {"DG_JIT_CACHE_DIR", "/c/jit"},
                                         {"DG_CACHE_DIR", "/c/dg"},
                                         {"CUDA_CACHE_PATH", "/c/cuda"}}))),
            (Map{{"vllm", "/c/vllm"},
                 {"inductor", "/c/inductor"},
                 {"inductor-headers", "/tmp/torchinductor_u/precompiled_headers"},
                 {"triton", "/c/triton"},
                 {"flashinfer", "/c/.cache/flashinfer"},
                 {"deepgemm", "/c/jit"},
                 {"cuda", "/c/cuda"}}));
  const Map other = Directories(DefaultRoots(Of(
      {{"USER", "u"}, {"TMPDIR", "/scratch"}, {"XDG_CACHE_HOME", "/x"}, {"DG_CACHE_DIR", "/dg"}})));
  EXPECT_EQ(other, (Map{{"vllm", "/x/vllm"},
                        {"inductor", "/scratch/torchinductor_u"},
                        {"inductor-headers", "/scratch/torchinductor_u/precompiled_headers"},
                        {"deepgemm", "/dg"}}))
      << "without HOME no directory of it";
}

TEST(Roots, GivenOnesAreAddedReplacedAndLeftOut) {
  const Environment environment = Of({{"HOME", "/home/u"}, {"USER", "u"}});
  EXPECT_EQ(Directories(Value(RootsWith(
                environment, {"tokenizer=/m/tok", "triton=/t", "vllm=", "cuda=", "deepgemm="}))),
            (Map{{"tokenizer", "/m/tok"},
                 {"triton", "/t"},
                 {"inductor", "/tmp/torchinductor_u"},
                 {"inductor-headers", "/tmp/torchinductor_u/precompiled_headers"},
                 {"flashinfer", "/home/u/.cache/flashinfer"}}));
  for (const char* bad : {"/t", "=/t", "a b=/t", "../x=/t"}) {
    SCOPED_TRACE(bad);
    ExpectError(RootsWith(environment, {bad}), EINVAL);
  }
}

}  // namespace
}  // namespace ppc::artifact
