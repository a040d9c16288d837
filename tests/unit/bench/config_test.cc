// SPDX-License-Identifier: Apache-2.0
// Command lines of the bench programs: what is accepted, and one clear line for what is not.
#include "bench/rivals/config.h"

#include <gtest/gtest.h>

#include "tests/unit/has.h"
#include "tools/model/loadmodel/config.h"

namespace ppc::bench {
namespace {

template <typename Names>
Result<Options> OptionsOf(std::vector<std::string> words, const Names& options,
                          const Names& flags) {
  words.insert(words.begin(), "program");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  return Options::Parse(static_cast<int>(argv.size()), argv.data(), options, flags);
}

Result<LoadConfig> Parse(const std::vector<std::string>& words) {
  const Result<Options> options = OptionsOf(words, LoadOptionNames(), LoadFlagNames());
  if (!options.ok()) return options.error();
  return ParseLoadConfig(*options);
}

Result<RivalConfig> ParseRival(const std::vector<std::string>& words) {
  const Result<Options> options = OptionsOf(words, RivalOptionNames(), RivalFlagNames());
  if (!options.ok()) return options.error();
  return ParseRivalConfig(*options);
}

std::string ErrorOf(const std::vector<std::string>& words) {
  const Result<LoadConfig> config = Parse(words);
  return config.ok() ? "" : config.error().message;
}

std::string RivalErrorOf(const std::vector<std::string>& words) {
  const Result<RivalConfig> config = ParseRival(words);
  return config.ok() ? "" : config.error().message;
}

TEST(LoadConfig, ReadsEverything) {
  const LoadConfig config =
      Value(Parse({"--workers", "4", "--tp=2", "--mode", "read", "--direct", "--device-mbps",
                   "133.5", "--init-s", "5.5", "--bind", "0,1", "--staging", "16M", "/model/"}));
  EXPECT_EQ(config.dir, "/model");
  EXPECT_EQ(config.workers, 4u);
  EXPECT_EQ(config.tp, 2u);
  EXPECT_TRUE(config.is_direct);
  EXPECT_TRUE(config.is_bound);
  EXPECT_DOUBLE_EQ(config.device_mbps, 133.5);
  EXPECT_EQ(config.staging_bytes, 16u << 20);
  EXPECT_EQ(config.NodeOf(3), 1);
}

TEST(LoadConfig, TensorParallelIsAsManyAsWorkersByDefault) {
  EXPECT_EQ(Parse({"--workers", "2", "/m"})->tp, 2u);
}

TEST(LoadConfig, WorkersOfOneNodeAreNamedByTheirRanks) {
  const LoadConfig config = Value(Parse({"--workers", "2", "--tp", "4", "--ranks", "2,3", "/m"}));
  EXPECT_EQ(config.RankOf(0), 2u);
  EXPECT_EQ(config.RankOf(1), 3u);
}

TEST(LoadConfig, RefusesWithOneLine) {
  EXPECT_TRUE(Has(ErrorOf({}), "one model directory"));
  EXPECT_TRUE(Has(ErrorOf({"--what", "/m"}), "unknown option --what"));
  EXPECT_TRUE(Has(ErrorOf({"/m", "--workers"}), "needs a value"));
  EXPECT_TRUE(Has(ErrorOf({"/m", "--workers", "x"}), "not a whole number"));
  EXPECT_TRUE(Has(ErrorOf({"/m", "--workers", "0"}), "between 1 and"));
  EXPECT_TRUE(Has(ErrorOf({"/m", "--workers", "3", "--tp", "2"}), "multiple"));
  EXPECT_TRUE(Has(ErrorOf({"/m", "--mode", "fast"}), "not mmap or read"));
  EXPECT_TRUE(Has(ErrorOf({"/m", "--direct"}), "--mode read"));
  EXPECT_TRUE(Has(ErrorOf({"/m", "--staging", "17M"}), "between 1M and 16M"));
  EXPECT_TRUE(Has(ErrorOf({"/m", "--device-mbps", "-1"}), "at least 0"));
  EXPECT_TRUE(Has(ErrorOf({"/m", "--bind", "0,x"}), "list of NUMA nodes"));
  EXPECT_TRUE(Has(ErrorOf({"/m", "--remote-cost", "1.5"}), "needs --placement"));
  EXPECT_TRUE(Has(ErrorOf({"/m", "--remote-cost", "0.5"}), "at least 1"));
  EXPECT_TRUE(Has(ErrorOf({"/m", "--ranks", "1,x"}), "list of ranks"));
  EXPECT_TRUE(Has(ErrorOf({"/m", "--workers", "2", "--ranks", "1,1"}), "none twice"));
  EXPECT_TRUE(Has(ErrorOf({"/m", "--workers", "2", "--tp", "4"}), "multiple"));
  EXPECT_TRUE(Has(ErrorOf({"/m", "--workers", "2", "--tp", "4", "--ranks", "2,4"}), "below 4"));
  EXPECT_TRUE(Has(ErrorOf({"/m", "--placement"}), "--xpu-nodes"));
  EXPECT_TRUE(Has(ErrorOf({"/m", "--keep-mapped", "--mode=read"}), "--mode mmap"));
}

TEST(RivalConfig, DefaultsAreTheDocumentedOnes) {
  const RivalConfig vllm = Value(ParseRival({"prefetch", "--ranks", "2", "/m"}));
  EXPECT_EQ(vllm.prefetch.ranks, 2u);
  EXPECT_EQ(vllm.prefetch.threads, 8u);
  EXPECT_EQ(vllm.prefetch.block_bytes, 16u << 20);
  const RivalConfig direct = Value(ParseRival({"direct", "--early", "--init-s=1.5", "/m"}));
  EXPECT_EQ(direct.direct.threads, 4u);
  EXPECT_EQ(direct.direct.chunk_bytes, 32u << 20);
  EXPECT_TRUE(direct.is_early);
  EXPECT_DOUBLE_EQ(direct.init_s, 1.5);
}

TEST(RivalConfig, RefusesWithOneLine) {
  EXPECT_TRUE(Has(RivalErrorOf({"prefetch"}), "a kind and one model directory"));
  EXPECT_TRUE(Has(RivalErrorOf({"magic", "/m"}), "'magic' is not"));
  EXPECT_TRUE(Has(RivalErrorOf({"willneed", "--threads", "2", "/m"}), "no option of willneed"));
  EXPECT_TRUE(Has(RivalErrorOf({"prefetch", "--early", "/m"}), "no option of prefetch"));
  EXPECT_TRUE(Has(RivalErrorOf({"prefetch", "--threads", "65", "/m"}), "between 1 and 64"));
  EXPECT_TRUE(Has(RivalErrorOf({"direct", "--chunk", "5000", "/m"}), "multiple of 4096"));
  EXPECT_TRUE(Has(RivalErrorOf({"window", "/m"}), "--window SIZE"));
}

}  // namespace
}  // namespace ppc::bench
