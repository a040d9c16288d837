// SPDX-License-Identifier: Apache-2.0
//
// Sizes of templates at true layout against the paper's Table 3, recorded from
// simulated loads; ppc-template-bench prints them.
#include <gtest/gtest.h>

#include <ostream>

#include "bench/template/simulated_recording.h"
#include "policies/maio/follow/layout.h"

namespace ppc::maio {
namespace {

struct Row {
  const char* model;
  uint32_t workers;
  size_t most_bytes;
  size_t most_held_bytes;  // while it is used
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.model; }

uint64_t ModelBytes(const char* model) {
  uint64_t bytes = 0;
  for (const bench::Shard& shard : bench::ShardModel(*bench::FindModel(model), 1))
    bytes += shard.Header().size() + shard.data_bytes();
  return bytes;
}

class TemplateSize : public testing::TestWithParam<Row> {};

TEST_P(TemplateSize, IsBelowThePapersTable3) {
  const Row& row = GetParam();
  const Template t =
      bench::SimulateRecording(*bench::FindModel(row.model), 1, row.workers, bench::Jitter{});
  ASSERT_EQ(Check(t), "");
  EXPECT_EQ(t.groups.size(), row.workers + 1);
  // It lists the whole model, and hardly a page that is not of it.
  EXPECT_GE(DistinctBytes(t), ModelBytes(row.model));
  EXPECT_LE(DistinctBytes(t), ModelBytes(row.model) + (64 << 20));
  std::vector<uint8_t> bytes = Encode(t);
  RecordProperty("bytes", static_cast<int>(bytes.size()));
  EXPECT_LE(bytes.size(), row.most_bytes);
  std::string error;
  std::optional<Template> back = Decode(bytes, &error);
  ASSERT_TRUE(back.has_value()) << error;
  EXPECT_EQ(Encode(*back), bytes);
  const std::vector<uint64_t> numbers(t.files.size(), 1);
  EXPECT_LE(Layout(*back, numbers).held_bytes(), row.most_held_bytes);
}

constexpr size_t kMegabyte = 1000 * 1000;

// A quarter of the paper's sizes; of DeepSeek-R1 less than the paper's.
INSTANTIATE_TEST_SUITE_P(Models, TemplateSize,
                         testing::Values(Row{"qwen2.5-7b", 4, 11000 / 4, 2 * kMegabyte},
                                         Row{"qwen2.5-32b", 4, 32000 / 4, 2 * kMegabyte},
                                         Row{"qwen2.5-72b", 4, 95000 / 4, 2 * kMegabyte},
                                         Row{"llama-2-7b", 4, 14000 / 4, 2 * kMegabyte},
                                         Row{"llama-2-70b", 4, 118000 / 4, 2 * kMegabyte},
                                         Row{"deepseek-r1", 16, 545000 - 1, 9 * kMegabyte}));

}  // namespace
}  // namespace ppc::maio
