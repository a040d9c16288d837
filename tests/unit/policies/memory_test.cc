// SPDX-License-Identifier: Apache-2.0
//
// What reading a template takes, whatever the file says, and making one of the headers: a program
// of its own, whose operator new counts.
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <cstdlib>
#include <new>

#include "bench/common/model_layout.h"
#include "policies/maio/synth/synth.h"
#include "tests/unit/policies/synth_source_memory.h"

namespace {

size_t g_held = 0;
size_t g_most = 0;

void* Take(size_t bytes) {
  void* const memory = std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  g_held += malloc_usable_size(memory);
  g_most = std::max(g_most, g_held);
  return memory;
}
void Give(void* memory) {
  g_held -= malloc_usable_size(memory);
  std::free(memory);
}

}  // namespace

void* operator new(size_t bytes) { return Take(bytes); }
void* operator new[](size_t bytes) { return Take(bytes); }
void operator delete(void* memory) noexcept { Give(memory); }
void operator delete[](void* memory) noexcept { Give(memory); }
void operator delete(void* memory, size_t) noexcept { Give(memory); }
void operator delete[](void* memory, size_t) noexcept { Give(memory); }

namespace ppc::maio {
namespace {

// Beside the template itself only one file's table of contents is held, at true layout.
TEST(SynthMemory, OneFileAtATime) {
  MemorySource source;
  for (const bench::Shard& shard : bench::ShardModel(*bench::FindModel("deepseek-r1"), 1))
    source.Add(shard.file, shard.Header(), shard.data_bytes());
  SynthOptions options;
  options.service_id = "svc-memory";
  options.tp = 16;
  std::string error;
  const size_t before = g_most = g_held;
  const std::optional<Template> t = Synthesize(&source, "", options, &error);
  ASSERT_TRUE(t.has_value()) << error;
  const size_t kept = g_held - before;
  EXPECT_LE(g_most - before, kept + (1 << 20));
}

}  // namespace
}  // namespace ppc::maio
