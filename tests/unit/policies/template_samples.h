// SPDX-License-Identifier: Apache-2.0
// Templates for tests.
#ifndef TESTS_UNIT_POLICIES_TEMPLATE_SAMPLES_H_
#define TESTS_UNIT_POLICIES_TEMPLATE_SAMPLES_H_

#include <gtest/gtest.h>

#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "policies/maio/template/store.h"
#include "policies/maio/template/template.h"
#include "policies/maio/template/template_compare.h"

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

// Without one the test ends here, as failed.
inline Template Decoded(const std::vector<uint8_t>& bytes) {
  std::string error;
  std::optional<Template> t = Decode(bytes, &error);
  return t ? *std::move(t) : throw std::runtime_error(error);
}
inline Template Merged(const std::vector<Template>& parts) {
  std::string error;
  std::optional<Template> t = Merge(parts, &error);
  return t ? *std::move(t) : throw std::runtime_error(error);
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

inline std::vector<Template> PartsOf(uint32_t nodes) {
  constexpr uint32_t kWorkers = 50;  // groups have numbers below 63: two nodes record each
  std::vector<Template> parts;
  for (uint32_t node = 0; node < nodes; node++) {
    parts.push_back(PartOf(node, nodes));
    parts.back().groups[0].id = node % kWorkers;
  }
  return parts;
}

// One node has stored what the parts make, and the others find it there.
inline void ExpectMerged(TemplateStore* store, const std::vector<Template>& parts) {
  Template whole;
  uint64_t generation = 0;
  std::string error;
  const std::string& id = parts[0].service_id;
  ASSERT_EQ(GetTemplate(store, nullptr, id, &whole, &generation, &error), 0) << error;
  EXPECT_EQ(generation, 1u);
  Template expected = Merged(parts);
  expected.generation = 1;
  EXPECT_EQ(Encode(whole), Encode(expected));
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

// What each of these workers reads of one file, in this order.
inline Template OneFile(uint64_t file_bytes, const std::vector<std::vector<Extent>>& workers) {
  Template t;
  t.service_id = "abcd";
  t.files.push_back({"f", file_bytes, 0, FileKind::kSafetensors, {}});
  for (const std::vector<Extent>& extents : workers) {
    const auto id = static_cast<uint32_t>(t.groups.size());
    TemplateGroup& group = t.groups.emplace_back();
    group.id = id;
    for (const Extent& extent : extents) group.extents.push_back(extent);
  }
  return t;
}
inline Template OneReader(uint64_t file_bytes, const std::vector<Extent>& extents) {
  return OneFile(file_bytes, std::vector<std::vector<Extent>>{extents});
}

}  // namespace ppc::maio

#endif  // TESTS_UNIT_POLICIES_TEMPLATE_SAMPLES_H_
