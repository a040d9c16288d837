// SPDX-License-Identifier: Apache-2.0
// What reading a template takes, whatever the file says, and making one of the headers: a program
// of its own, whose operator new counts.
#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "policies/maio/synth/synth.h"
#include "policies/maio/template/template_format.h"
#include "tests/unit/has.h"
#include "tests/unit/policies/synth_source_memory.h"
#include "tests/unit/policies/template_samples.h"
#include "tools/model/common/model_layout.h"

namespace {

std::atomic<size_t> g_held{0};  // headers are read by several threads
std::atomic<size_t> g_most{0};

// nullptr: there is none.
void* TakeIfThere(size_t bytes) {
  void* const memory = std::malloc(bytes);
  if (memory == nullptr) return nullptr;
  const size_t held = g_held += malloc_usable_size(memory);
  size_t most = g_most;
  while (most < held && !g_most.compare_exchange_weak(most, held)) {
  }
  return memory;
}
void* Take(size_t bytes) {
  if (void* const memory = TakeIfThere(bytes)) return memory;
  throw std::bad_alloc();
}
void Give(void* memory) {
  g_held -= malloc_usable_size(memory);
  std::free(memory);
}

}  // namespace

void* operator new(size_t bytes) { return Take(bytes); }
void* operator new[](size_t bytes) { return Take(bytes); }
void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return TakeIfThere(bytes); }
void operator delete(void* memory) noexcept { Give(memory); }
void operator delete[](void* memory) noexcept { Give(memory); }
void operator delete(void* memory, size_t) noexcept { Give(memory); }
void operator delete[](void* memory, size_t) noexcept { Give(memory); }

namespace ppc::maio {
namespace {

constexpr size_t kSmallFile = 64 << 10;

// What decoding it says; no more than so much is held at once meanwhile.
std::string ErrorOf(const std::vector<uint8_t>& bytes, size_t most = kMaxDecodingBytes) {
  std::string error;
  const size_t before = g_most = g_held.load();
  const std::optional<Template> t = Decode(bytes, &error);
  const size_t held = g_most - before;
  testing::Test::RecordProperty("held", std::to_string(held));
  EXPECT_LE(held, most);
  return error;
}

TEST(DecodeMemory, TheSampleTakesLittle) {
  EXPECT_EQ(ErrorOf(Encode(SampleTemplate()), 64u << 10), "");
}

TEST(DecodeMemory, TimeMarks) {
  Template t = SampleTemplate();
  t.groups[0].time_ms.assign(30 << 20, 0);
  const std::vector<uint8_t> bytes = Encode(t);
  ASSERT_LE(bytes.size(), kSmallFile);
  const std::string error = ErrorOf(bytes);
  EXPECT_TRUE(Has(error, "malformed section"));
  // As many as there may be, and one.
  t.groups[0].time_ms.assign(kMaxTimeMarks - t.groups[1].time_ms.size(), 7);
  EXPECT_EQ(ErrorOf(Encode(t), ~size_t{0}), "");
  t.groups[1].time_ms.push_back(7);
  EXPECT_NE(Check(t), "");
  EXPECT_NE(ErrorOf(Encode(t), ~size_t{0}), "");
}

TEST(DecodeMemory, Metadata) {
  Template t = SampleTemplate();
  t.meta = "[" + std::string(31 << 20, ' ') + "]";
  const std::vector<uint8_t> bytes = Encode(t);
  ASSERT_LE(bytes.size(), kSmallFile);
  const std::string error = ErrorOf(bytes);
  EXPECT_TRUE(Has(error, "malformed section"));
  EXPECT_NE(Check(t), "");
}

// Paths share their beginnings with those before; each section of files begins anew.
TEST(DecodeMemory, PathsInManySections) {
  std::vector<Section> sections;
  for (int i = 0; i < 32; i++) {
    ByteWriter w;
    constexpr uint64_t kFiles = 2000;
    const std::string path(4095, 'x');
    w.Varint(kFiles);
    for (uint64_t f = 0; f < kFiles; f++) {
      w.Varint(f == 0 ? 0 : path.size());
      w.Varint(f == 0 ? path.size() : 0);
      if (f == 0) w.Raw(path);
      w.Varint(4096);
      w.Signed(0);
      w.Fixed(uint8_t{0});
      w.Raw(Fingerprint{}.data(), Fingerprint{}.size());
    }
    sections.push_back({kSectionFiles, std::move(w.bytes())});
  }
  const std::vector<uint8_t> bytes = Assemble(SampleTemplate(), std::move(sections), true);
  ASSERT_LE(bytes.size(), kSmallFile);
  EXPECT_NE(ErrorOf(bytes), "");
}

// Each as far from the one before as can be, and of another length: nothing packs less well.
Template Scattered(uint32_t files, size_t extents) {
  Template t = SampleTemplate();
  t.files.clear();
  t.groups.clear();
  for (uint32_t f = 0; f < files; f++) {
    TemplateFile file;
    file.path = "f" + std::to_string(f);
    file.size = kMaxFileBytes;
    t.files.push_back(file);
  }
  constexpr uint64_t kFar = kMaxFileBytes / kPage - kMaxTotalExtents * 2;
  for (size_t i = 0; i < extents; i++) {
    if (i % kMaxExtents == 0) t.groups.emplace_back().id = static_cast<uint32_t>(i / kMaxExtents);
    const bool odd = i % 2 != 0;
    t.groups.back().extents.push_back(
        {odd ? files - 1 : 0, (odd ? kFar : 0) + i / 2 * 2, odd ? 1u : 2u});
  }
  return t;
}

TEST(DecodeMemory, AsManyExtentsAsThereMayBe) {
  EXPECT_EQ(ErrorOf(Encode(Scattered(2, kMaxTotalExtents))), "");
}

TEST(DecodeMemory, ManyFilesAndExtents) {
  EXPECT_EQ(ErrorOf(Encode(Scattered(kMaxFiles, 3 << 20))), "");
}

// Of a file that is as large as may be, nothing packed: the file itself is the caller's.
TEST(DecodeMemory, TheLargestFile) {
  const Template t = Scattered(2, kMaxTotalExtents);
  EXPECT_EQ(ErrorOf(EncodeSections(t, /*compress=*/false)), "");
}

// Beside the template itself only one file's table of contents is held, at true layout.
TEST(SynthMemory, OneFileAtATime) {
  MemorySource source;
  for (const bench::Shard& shard : bench::ShardModel(*bench::FindModel("deepseek-r1"), 1))
    source.Add(shard.file, shard.Header(), shard.data_bytes());
  SynthOptions options;
  options.service_id = "svc-memory";
  options.tp = 16;
  std::string error;
  const size_t before = g_most = g_held.load();
  const std::optional<Template> t = Synthesize(&source, "", options, &error);
  ASSERT_TRUE(t.has_value()) << error;
  const size_t kept = g_held - before;
  EXPECT_LE(g_most - before, kept + (1 << 20));
}

}  // namespace
}  // namespace ppc::maio
