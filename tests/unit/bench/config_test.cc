// SPDX-License-Identifier: Apache-2.0
// Command lines of the bench programs: what is accepted, and one clear line for what is not.
#include "tools/model/loadmodel/config.h"

#include <gtest/gtest.h>

namespace ppc::bench {
namespace {

Result<LoadConfig> Parse(std::vector<std::string> words) {
  words.insert(words.begin(), "loadmodel");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  Result<Options> options = Options::Parse(static_cast<int>(argv.size()), argv.data(),
                                           LoadOptionNames(), LoadFlagNames());
  if (!options.ok()) return options.error();
  return ParseLoadConfig(*options);
}

std::string ErrorOf(const std::vector<std::string>& words) {
  const Result<LoadConfig> config = Parse(words);
  return config.ok() ? "" : config.error().message;
}

TEST(LoadConfig, ReadsEverything) {
  const Result<LoadConfig> config =
      Parse({"--workers", "4", "--tp=2", "--mode", "read", "--direct", "--device-mbps", "133.5",
             "--init-s", "5.5", "--bind", "0,1", "--staging", "16M", "/model/"});
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->dir, "/model");
  EXPECT_EQ(config->workers, 4u);
  EXPECT_EQ(config->tp, 2u);
  EXPECT_TRUE(config->is_direct);
  EXPECT_TRUE(config->is_bound);
  EXPECT_DOUBLE_EQ(config->device_mbps, 133.5);
  EXPECT_EQ(config->staging_bytes, 16u << 20);
  EXPECT_EQ(config->NodeOf(3), 1);
}

TEST(LoadConfig, TensorParallelIsAsManyAsWorkersByDefault) {
  EXPECT_EQ(Parse({"--workers", "2", "/m"})->tp, 2u);
}

TEST(LoadConfig, WorkersOfOneNodeAreNamedByTheirRanks) {
  const Result<LoadConfig> config = Parse({"--workers", "2", "--tp", "4", "--ranks", "2,3", "/m"});
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->RankOf(0), 2u);
  EXPECT_EQ(config->RankOf(1), 3u);
}

TEST(LoadConfig, RefusesWithOneLine) {
  EXPECT_NE(ErrorOf({}).find("one model directory"), std::string::npos);
  EXPECT_NE(ErrorOf({"--what", "/m"}).find("unknown option --what"), std::string::npos);
  EXPECT_NE(ErrorOf({"/m", "--workers"}).find("needs a value"), std::string::npos);
  EXPECT_NE(ErrorOf({"/m", "--workers", "x"}).find("not a whole number"), std::string::npos);
  EXPECT_NE(ErrorOf({"/m", "--workers", "0"}).find("between 1 and"), std::string::npos);
  EXPECT_NE(ErrorOf({"/m", "--workers", "3", "--tp", "2"}).find("multiple"), std::string::npos);
  EXPECT_NE(ErrorOf({"/m", "--mode", "fast"}).find("not mmap or read"), std::string::npos);
  EXPECT_NE(ErrorOf({"/m", "--direct"}).find("--mode read"), std::string::npos);
  EXPECT_NE(ErrorOf({"/m", "--staging", "17M"}).find("between 1M and 16M"), std::string::npos);
  EXPECT_NE(ErrorOf({"/m", "--device-mbps", "-1"}).find("at least 0"), std::string::npos);
  EXPECT_NE(ErrorOf({"/m", "--bind", "0,x"}).find("list of NUMA nodes"), std::string::npos);
  EXPECT_NE(ErrorOf({"/m", "--remote-cost", "1.5"}).find("needs --placement"), std::string::npos);
  EXPECT_NE(ErrorOf({"/m", "--remote-cost", "0.5"}).find("at least 1"), std::string::npos);
  EXPECT_NE(ErrorOf({"/m", "--ranks", "1,x"}).find("list of ranks"), std::string::npos);
  EXPECT_NE(ErrorOf({"/m", "--workers", "2", "--ranks", "1,1"}).find("none twice"),
            std::string::npos);
  EXPECT_NE(ErrorOf({"/m", "--workers", "2", "--tp", "4"}).find("multiple"), std::string::npos);
  EXPECT_NE(ErrorOf({"/m", "--workers", "2", "--tp", "4", "--ranks", "2,4"}).find("below 4"),
            std::string::npos);
  EXPECT_NE(ErrorOf({"/m", "--placement"}).find("--xpu-nodes"), std::string::npos);
  EXPECT_NE(ErrorOf({"/m", "--keep-mapped", "--mode=read"}).find("--mode mmap"), std::string::npos);
}

}  // namespace
}  // namespace ppc::bench
