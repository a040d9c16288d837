// SPDX-License-Identifier: Apache-2.0
// Tables of contents: what they say, and one clear error for each way in which
// they can be wrong.
#include "policies/maio/synth/synth_header.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/unit/fuzz.h"
#include "tests/unit/has.h"
#include "tests/unit/policies/synth_source_memory.h"

namespace ppc::maio {
namespace {

constexpr uint64_t kLimit = 1 << 20;

// The error of a file with these first bytes, "" when it is fine.
std::string ReadHead(const std::string& head, uint64_t more, ModelFile* file = nullptr) {
  MemorySource source;
  source.Add("m.safetensors", head, more);
  ModelFile local;
  if (file == nullptr) file = &local;
  source.Stat("m.safetensors", &file->info);
  std::string error;
  bool is_gguf = head.rfind("GGUF", 0) == 0;
  bool ok = is_gguf ? ReadGguf(&source, kLimit, file, &error)
                    : ReadSafetensors(&source, kLimit, file, &error);
  EXPECT_EQ(ok, error.empty()) << error;
  EXPECT_EQ(error.find('\n'), std::string::npos) << error;
  EXPECT_TRUE(ok || error.rfind("m.safetensors: ", 0) == 0) << error;
  return error;
}
std::string ReadJson(const std::string& json, uint64_t data) {
  return ReadHead(SafetensorsHead(json), data);
}

constexpr char kGood[] = R"({"__metadata__":{"format":"pt"},)"
                         R"("b":{"dtype":"BF16","shape":[2,3],"data_offsets":[4,16]},)"
                         R"("a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})";

TEST(SynthSafetensors, ReadsTensorsInFileOrder) {
  ModelFile file;
  ASSERT_EQ(ReadHead(SafetensorsHead(kGood), 16, &file), "");
  ASSERT_EQ(file.tensors.size(), 2u);
  EXPECT_EQ(file.tensors[0].name, "a");
  EXPECT_EQ(file.tensors[1].begin, file.data_offset + 4);
  EXPECT_EQ(file.tensors[1].end, file.info.size);
  EXPECT_EQ(file.tensors[1].shape, (std::vector<uint64_t>{2, 3}));
}

TEST(SynthSafetensors, EachBadHeaderIsOneClearError) {
  const auto tensor = [](const std::string& name, const std::string& offsets,
                         const std::string& shape = "[2]") {
    return "\"" + name + R"(":{"dtype":"BF16","shape":)" + shape + R"(,"data_offsets":)" + offsets +
           "}";
  };
  struct Case {
    std::string json, wanted;
  };
  const Case kCases[] = {
      {"[]", "not a JSON object"},
      {"17", "not a JSON object"},
      {"{\"a\":", "not JSON"},
      {"{\"a\":1}", "'a' is not an object"},
      {"{\"a\":[1]}", "'a' is not an object"},
      {"{\"a\":{}}", "lacks dtype"},
      {"{" + tensor("a", "[0]") + "}", "lacks dtype, shape or data_offsets"},
      {"{" + tensor("a", "[0,2,4]") + "}", "lacks dtype, shape or data_offsets"},
      {"{" + tensor("a", "[-1,3]") + "}", "'a' has a negative number, -1"},
      {"{" + tensor("a", "[0,4]", "[-2]") + "}", "'a' has a negative number, -2"},
      {"{" + tensor("a", "[0,4.5]") + "}", "4.5 where a whole number"},
      {"{" + tensor("a", "[4,0]") + "}", "ends before it begins"},
      {"{" + tensor("a", "[0,6]") + "}", "spans 6 bytes, its shape needs 4"},
      {"{" + tensor("a", "[0,4]", "[4294967296,4294967296,4294967296]") + "}", "huge shape"},
      {"{" + tensor("a", "[0,4]", "[1,1,1,1,1,1,1,1,1]") + "}", "too many numbers"},
      {"{" + tensor("a", "[0,4]") + "," + tensor("b", "[2,6]") + "}", "overlap"},
      {"{" + tensor("a", "[0,4]") + "," + tensor("a", "[4,8]") + "}", "listed twice"},
      {"{" + tensor("a", "[1000,1004]") + "}", "truncated"},
      {"{" + tensor("a", "[18446744073709551610,18446744073709551614]") + "}", "truncated"},
      {"{\"a\":{\"x\":{\"y\":{}}}}", "nested too deeply"},
      {"{\"a\":{\"shape\":[[1]]}}", "nested too deeply"},
      {"{\"a\":" + std::string(100000, '['), "is not an object"},
      {"{\"a\":{\"shape\":" + std::string(100000, '['), "nested too deeply"},
      {std::string(200000, '{'), "not JSON"},
      {"{\"a\":{\"b\":" + std::string(100000, '{'), "nested too deeply"},
  };
  for (const Case& c : kCases) {
    std::string error = ReadJson(c.json, 16);
    EXPECT_TRUE(Has(error, c.wanted)) << c.json.substr(0, 120) << "\n" << error;
    EXPECT_LT(error.size(), 300u);
  }
}

TEST(SynthSafetensors, LengthsAreChecked) {
  EXPECT_TRUE(Has(ReadHead("abc", 0), "shorter than 8"));
  std::string head = SafetensorsHead(kGood);
  EXPECT_TRUE(Has(ReadHead(head.substr(0, 40), 0), "truncated"));
  EXPECT_TRUE(Has(ReadHead(head, 15), "truncated"));
  head[5] = 1;
  EXPECT_TRUE(Has(ReadHead(head, 16), "over the limit"));
  EXPECT_TRUE(Has(ReadHead(std::string(8, '\xff') + "{}", 16), "over the limit"));
  EXPECT_TRUE(Has(ReadHead(std::string(8, '\0'), 16), "truncated"));
}

std::string Little(uint64_t value, size_t bytes) {
  std::string out;
  for (size_t i = 0; i < bytes; i++) out += static_cast<char>(value >> (8 * i) & 0xff);
  return out;
}
std::string Text(const std::string& text) { return Little(text.size(), 8) + text; }

// Three tensors of 64, 32 and the remaining bytes.
std::string GgufHead(uint64_t tensors = 3, uint64_t pairs = 3) {
  std::string vocabulary = Little(8, 4) + Little(2, 8) + Text("a") + Text("bc");
  std::string out = "GGUF" + Little(3, 4) + Little(tensors, 8) + Little(pairs, 8);
  out += Text("general.name") + Little(8, 4) + Text("test");
  out += Text("general.alignment") + Little(4, 4) + Little(64, 4);
  out += Text("tokenizer.ggml.tokens") + Little(9, 4) + vocabulary;
  uint64_t offset = 0;
  for (const char* name : {"token_embd.weight", "blk.0.attn_q.weight", "output.weight"}) {
    out += Text(name) + Little(2, 4) + Little(8, 8) + Little(4, 8) + Little(0, 4);
    out += Little(offset, 8);
    offset += 64;
  }
  return out;
}

TEST(SynthGguf, ReadsTensorsByOffset) {
  ModelFile file;
  std::string head = GgufHead();
  head.resize((head.size() + 63) / 64 * 64);
  ASSERT_EQ(ReadHead(head, 256, &file), "");
  ASSERT_EQ(file.tensors.size(), 3u);
  EXPECT_EQ(file.data_offset, head.size());
  EXPECT_EQ(file.tensors[1].name, "blk.0.attn_q.weight");
  EXPECT_EQ(file.tensors[1].begin, head.size() + 64);
  EXPECT_EQ(file.tensors[1].shape, (std::vector<uint64_t>{4, 8}));
  EXPECT_EQ(file.tensors[2].end, file.info.size);
}

TEST(SynthGguf, BadHeadersAreErrors) {
  for (size_t n = 4; n < GgufHead().size(); n++)
    EXPECT_NE(ReadHead(GgufHead().substr(0, n), 0), "") << n;
  EXPECT_TRUE(Has(ReadHead(GgufHead(), 100), "truncated"));
  EXPECT_TRUE(Has(ReadHead(GgufHead(~0ull), 4096), "too many"));
  EXPECT_TRUE(Has(ReadHead(GgufHead(3, ~0ull), 4096), "too many"));
  std::string version = GgufHead();
  version[4] = 1;
  EXPECT_TRUE(Has(ReadHead(version, 4096), "version 1"));
  std::string odd = GgufHead();
  odd[odd.find("general.alignment") + 17 + 4] = 3;
  EXPECT_TRUE(Has(ReadHead(odd, 4096), "alignment"));
  // An array of arrays of arrays ... of nothing.
  std::string deep = "GGUF" + Little(3, 4) + Little(0, 8) + Little(1, 8) + Text("x") + Little(9, 4);
  for (int i = 0; i < 10000; i++) deep += Little(9, 4) + Little(1, 8);
  EXPECT_NE(ReadHead(deep, 4096), "");
}

// Damaged headers of both kinds: an error or tensors within the file, never more.
TEST(SynthHostile, MutatedHeadersAreRefusedOrConsistent) {
  const int mutations = Mutations(200000) / 10;
  GrowthCheck growth(mutations);
  std::mt19937 random(7);
  int accepted = 0;
  for (int i = 0; i < mutations; i++) {
    growth.Round();
    std::string head = i % 2 ? SafetensorsHead(kGood) : GgufHead();
    for (int n = 1 + static_cast<int>(random() % 3); n > 0; n--) {
      size_t at = random() % head.size();
      if (i % 2 && at < 8 && random() % 4 != 0) at += 8;
      if (random() % 3 == 0) {
        head[at] = static_cast<char>(random());
      } else {
        const std::string kChars = "0123456789-,[]{}\":.e";
        head[at] = kChars[random() % kChars.size()];
      }
    }
    ModelFile file;
    if (!ReadHead(head, 512, &file).empty()) continue;
    accepted++;
    uint64_t before = 0;
    for (const SynthTensor& tensor : file.tensors) {
      ASSERT_LE(before, tensor.begin);
      ASSERT_LE(tensor.begin, tensor.end);
      ASSERT_LE(tensor.end, file.info.size);
      before = tensor.end;
    }
  }
  EXPECT_GT(accepted, mutations / 100);
}

}  // namespace
}  // namespace ppc::maio
