// SPDX-License-Identifier: Apache-2.0
//
// Sizes of templates of real tensor layouts against the paper's Table 3, with
// every worker taking its tensor-parallel slice.
#include <gtest/gtest.h>

#include <chrono>

#include "policies/maio/recorder.h"

namespace ppc::maio {
namespace {

struct Shape {
  const char* name;
  uint64_t layers, hidden, ffn, heads, kv_heads, vocab, shard_bytes;
  bool bias;
  size_t paper_bytes;
};

struct Tensor {
  uint64_t rows, columns;
  int split;  // 0: all workers, 1: by rows, 2: by columns
};

std::vector<Tensor> Tensors(const Shape& s) {
  uint64_t kv = s.hidden / s.heads * s.kv_heads;
  std::vector<Tensor> out = {{s.vocab, s.hidden, 1}};
  for (uint64_t i = 0; i < s.layers; i++) {
    std::vector<Tensor> layer = {
        {1, s.hidden, 0},     {s.hidden, s.hidden, 1}, {kv, s.hidden, 1},
        {kv, s.hidden, 1},    {s.hidden, s.hidden, 2}, {1, s.hidden, 0},
        {s.ffn, s.hidden, 1}, {s.ffn, s.hidden, 1},    {s.hidden, s.ffn, 2}};
    if (s.bias) layer.insert(layer.end(), {{1, s.hidden, 1}, {1, kv, 1}, {1, kv, 1}});
    out.insert(out.end(), layer.begin(), layer.end());
  }
  out.push_back({1, s.hidden, 0});
  out.push_back({s.vocab, s.hidden, 1});
  return out;
}

void Read(Recorder* r, uint32_t worker, uint32_t file, uint64_t begin, uint64_t end, uint64_t* ms) {
  for (uint64_t at = begin; at < end; at += 1 << 20) {
    r->Touch(worker, file, at / kPage, (std::min(end, at + (1 << 20)) + kPage - 1) / kPage,
             *ms += 1'000'000);
  }
}

// Every worker walks all tensors; of a tensor split by columns it takes a piece of each row.
Template RecordModel(const Shape& s, uint32_t workers) {
  Recorder recorder(0);
  uint64_t offset = 64 << 10;
  uint32_t file = 0;
  uint64_t ms = 0;
  auto open_file = [&](uint32_t index) {
    TemplateFile f;
    f.path = "model-" + std::to_string(100000 + index) + "-of-00037.safetensors";
    f.size = s.shard_bytes + (4ull << 30);
    f.kind = FileKind::kSafetensors;
    recorder.AddFile(index + 1, f);
  };
  open_file(0);
  for (const Tensor& t : Tensors(s)) {
    uint64_t bytes = t.rows * t.columns * 2;
    if (offset + bytes > s.shard_bytes && offset > (64 << 10)) {
      open_file(++file);
      offset = 64 << 10;
    }
    for (uint32_t w = 0; w < workers; w++) {
      if (t.split == 0) {
        Read(&recorder, w, file, offset, offset + bytes, &ms);
      } else if (t.split == 1) {
        Read(&recorder, w, file, offset + bytes / workers * w, offset + bytes / workers * (w + 1),
             &ms);
      } else {
        // Gaps are far below the merge limit: the whole tensor from the first to the last row.
        uint64_t part = t.columns * 2 / workers;
        Read(&recorder, w, file, offset + part * w, offset + bytes - part * (workers - 1 - w), &ms);
      }
    }
    offset += bytes;
  }
  return recorder.Finish("0123456789abcdef", kComplete, 0);
}

TEST(TemplateSize, BelowThePapersTable3) {
  const Shape kShapes[] = {
      {"Qwen2.5-7B", 28, 3584, 18944, 28, 4, 152064, 4000000000, true, 11 << 10},
      {"Qwen2.5-32B", 64, 5120, 27648, 40, 8, 152064, 4000000000, true, 32 << 10},
      {"Qwen2.5-72B", 80, 8192, 29568, 64, 8, 152064, 4000000000, true, 95 << 10},
      {"Llama-7B", 32, 4096, 11008, 32, 32, 32000, 10000000000, false, 14 << 10},
      {"Llama-70B", 80, 8192, 28672, 64, 8, 32000, 10000000000, false, 118 << 10},
  };
  for (const Shape& shape : kShapes) {
    Template t = RecordModel(shape, 4);
    ASSERT_EQ(Check(t), "") << shape.name;
    std::vector<uint8_t> bytes = Encode(t);
    RecordProperty(shape.name, static_cast<int>(bytes.size()));
    std::printf("%s: %zu bytes, the paper's %zu\n", shape.name, bytes.size(), shape.paper_bytes);
    EXPECT_LE(bytes.size(), shape.paper_bytes) << shape.name;
    std::string error;
    ASSERT_TRUE(Decode(bytes, &error).has_value()) << error;
  }
}

}  // namespace
}  // namespace ppc::maio
