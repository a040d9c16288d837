// SPDX-License-Identifier: Apache-2.0
#include "extras/artifact/roots.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <map>

namespace ppc::artifact {
namespace {

Environment Of(std::map<std::string, std::string> values) {
  return [values = std::move(values)](const std::string& name) {
    const auto found = values.find(name);
    return found == values.end() ? std::string() : found->second;
  };
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
  const Result<std::vector<Root>> roots =
      RootsWith(environment, {"tokenizer=/m/tok", "triton=/t", "vllm=", "cuda=", "deepgemm="});
  ASSERT_TRUE(roots) << roots.error().message;
  EXPECT_EQ(Directories(*roots),
            (Map{{"tokenizer", "/m/tok"},
                 {"triton", "/t"},
                 {"inductor", "/tmp/torchinductor_u"},
                 {"inductor-headers", "/tmp/torchinductor_u/precompiled_headers"},
                 {"flashinfer", "/home/u/.cache/flashinfer"}}));
  for (const char* bad : {"/t", "=/t", "a b=/t", "../x=/t"}) {
    const Result<std::vector<Root>> refused = RootsWith(environment, {bad});
    ASSERT_FALSE(refused) << bad;
    EXPECT_EQ(refused.error().code, EINVAL);
  }
}

}  // namespace
}  // namespace ppc::artifact
