// SPDX-License-Identifier: Apache-2.0
// ppc-rival's command line: documented defaults, and one clear line for what is not accepted.
#include <gtest/gtest.h>

#include "bench/rivals/config.h"

namespace ppc::bench {
namespace {

Result<RivalConfig> ParseRival(std::vector<std::string> words) {
  words.insert(words.begin(), "ppc-rival");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  Result<Options> options = Options::Parse(static_cast<int>(argv.size()), argv.data(),
                                           RivalOptionNames(), RivalFlagNames());
  if (!options.ok()) return options.error();
  return ParseRivalConfig(*options);
}

std::string RivalErrorOf(const std::vector<std::string>& words) {
  const Result<RivalConfig> config = ParseRival(words);
  return config.ok() ? "" : config.error().message;
}

TEST(RivalConfig, DefaultsAreTheDocumentedOnes) {
  const Result<RivalConfig> vllm = ParseRival({"prefetch", "--ranks", "2", "/m"});
  ASSERT_TRUE(vllm.ok());
  EXPECT_EQ(vllm->prefetch.ranks, 2u);
  EXPECT_EQ(vllm->prefetch.threads, 8u);
  EXPECT_EQ(vllm->prefetch.block_bytes, 16u << 20);
  const Result<RivalConfig> direct = ParseRival({"direct", "--early", "--init-s=1.5", "/m"});
  ASSERT_TRUE(direct.ok());
  EXPECT_EQ(direct->direct.threads, 4u);
  EXPECT_EQ(direct->direct.chunk_bytes, 32u << 20);
  EXPECT_TRUE(direct->is_early);
  EXPECT_DOUBLE_EQ(direct->init_s, 1.5);
}

TEST(RivalConfig, RefusesWithOneLine) {
  EXPECT_NE(RivalErrorOf({"prefetch"}).find("a kind and one model directory"), std::string::npos);
  EXPECT_NE(RivalErrorOf({"magic", "/m"}).find("'magic' is not"), std::string::npos);
  EXPECT_NE(RivalErrorOf({"willneed", "--threads", "2", "/m"}).find("no option of willneed"),
            std::string::npos);
  EXPECT_NE(RivalErrorOf({"prefetch", "--early", "/m"}).find("no option of prefetch"),
            std::string::npos);
  EXPECT_NE(RivalErrorOf({"prefetch", "--threads", "65", "/m"}).find("between 1 and 64"),
            std::string::npos);
  EXPECT_NE(RivalErrorOf({"direct", "--chunk", "5000", "/m"}).find("multiple of 4096"),
            std::string::npos);
  EXPECT_NE(RivalErrorOf({"window", "/m"}).find("--window SIZE"), std::string::npos);
}

}  // namespace
}  // namespace ppc::bench
