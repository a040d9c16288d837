// SPDX-License-Identifier: Apache-2.0
//
// What is dropped of files that are read side by side.
#include <gtest/gtest.h>

#include <string>

#include "policies/maio/follow/affinity.h"
#include "policies/maio/follow/evictor.h"
#include "tests/unit/units.h"

namespace ppc::maio {
namespace {

TEST(MaioEvictorStreams, WhatIsNextInEachFileStays) {
  Template t;
  t.service_id = "abcd";
  t.groups.resize(1);
  for (uint32_t f = 0; f < 3; f++) {
    t.files.push_back({"f" + std::to_string(f), 200 << 20, 0, FileKind::kSafetensors, {}});
    t.groups[0].extents.push_back({f, 0, 200 * kMiBPages});
  }
  Layout layout(t, std::vector<uint64_t>{1, 2, 3});
  PieceTable table(&layout);
  Matcher matcher(&table, kMiB, kMiB);
  ppc_context context = {};
  Affinity affinity(&context, layout, false);
  Planner planner(&table, &matcher, &affinity, 0, 1);
  Evictor evictor(&table, &matcher, &planner, 8 * kMiB, 1);
  // All of the third file, which a thread has just begun, and some of the first.
  for (uint32_t p = 0; p < layout.pieces().size(); p++) {
    const Piece& piece = layout.pieces()[p];
    if (piece.file == 2 || (piece.file == 0 && piece.page < 100 * kMiBPages)) planner.Found(p);
  }
  for (uint64_t mib = 0; mib < 40; mib++) {
    for (const uint32_t file : {0u, 2u}) {
      Observation o;
      o.file = file;
      o.first_page = mib * kMiBPages;
      o.end_page = o.first_page + 1;
      matcher.Observe(o);
    }
  }
  ppc_memory memory = {};
  memory.threshold = 800 * kMiB;
  memory.used = memory.threshold + 400 * kMiB;
  IoList list;
  evictor.Evict(
      memory, 1, false, [](uint64_t, uint64_t, uint64_t) { return false; }, &list);
  uint64_t unneeded = 0;
  for (const ppc_io& io : list.ios()) {
    const uint64_t from = 40 * kMiB;
    if (io.offset < from) continue;  // has been read
    unneeded += io.size;
    EXPECT_GE(io.offset, from + 8 * kMiB) << "file " << io.file;
  }
  EXPECT_GT(unneeded, 0u);
}

}  // namespace
}  // namespace ppc::maio
