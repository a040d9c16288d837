// SPDX-License-Identifier: Apache-2.0
//
// Templates for tests.
#ifndef TESTS_UNIT_POLICIES_TEMPLATE_SAMPLES_H_
#define TESTS_UNIT_POLICIES_TEMPLATE_SAMPLES_H_

#include <string>

#include "policies/maio/template/template.h"

namespace ppc::maio {

inline Template SampleTemplate() {
  Template t;
  t.flags = kComplete | kTraced;
  t.service_id = "00112233445566778899aabbccddeeff";
  t.created_ns = 1234567890123;
  t.generation = 7;
  t.meta = "{\"model\":\"m\"}";
  for (int i = 0; i < 5; i++) {
    TemplateFile f;
    f.path = "org/model/model-0000" + std::to_string(i) + "-of-00005.safetensors";
    f.size = 64 << 20;
    f.mtime_ns = 1700000000000000000 + i;
    f.kind = FileKind::kSafetensors;
    for (size_t b = 0; b < f.fingerprint.size(); b++)
      f.fingerprint[b] = static_cast<uint8_t>(i * 16 + b);
    t.files.push_back(f);
  }
  TemplateGroup common;
  common.id = kCommonGroup;
  common.extents = {{0, 0, 2}};
  TemplateGroup a;
  a.id = 0;
  a.first_ms = 5;
  a.last_ms = 900;
  a.repeat_bytes = 4096;
  a.time_ms = {10, 20, 300};
  a.extents = {{0, 0, 100}, {0, 200, 50}, {1, 0, 10}, {0, 250, 1}, {4, 16383, 1}, {0, 150, 10}};
  for (uint64_t i = 0; i < 40; i++) a.extents.push_back({2, i * 16, 4});
  a.extents.push_back({0, 0, 100});  // a second pass
  TemplateGroup b;
  b.id = 1;
  b.extents = {{3, 7, 9}};
  t.groups = {a, b, common};
  return t;
}

// What one of so many nodes has recorded.
inline Template PartOf(uint32_t node, uint32_t nodes) {
  Template t = SampleTemplate();
  t.groups.erase(t.groups.begin() + 1, t.groups.begin() + 2);
  t.groups[0].id = node;
  t.groups[0].node = node;
  t.groups[0].extents = {{0, node, 1}, {1, nodes - node, 2}};
  t.created_ns = 1000 + node;
  return t;
}

inline bool SameExtents(const TemplateGroup& a, const TemplateGroup& b) {
  return a.extents == b.extents;
}

// Lets change() do what it likes to the group's extents.
template <typename F>
void ChangeExtents(TemplateGroup* group, F change) {
  std::vector<Extent> extents = group->extents.ToVector();
  change(extents);
  group->extents = extents;
}

}  // namespace ppc::maio

#endif  // TESTS_UNIT_POLICIES_TEMPLATE_SAMPLES_H_
