// SPDX-License-Identifier: Apache-2.0
// Phases of a start-up in templates: a section of its own, which older programs skip.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "policies/maio/record/recorder.h"
#include "policies/maio/template/template_format.h"
#include "tests/unit/policies/template_samples.h"

namespace ppc::maio {
namespace {

constexpr size_t kMinorAt = 10;

Template WithPhases() {
  Template t = SampleTemplate();
  t.phases = {{Phase::kInit, true, 0, {}},
              {Phase::kWeights, false, 1500, {{kCommonGroup, 8192}, {0, 4096}}},
              {Phase::kReady, true, 70000, {{0, 1ull << 40}}}};
  return t;
}

TEST(TemplatePhases, RoundTripIsExact) {
  const Template t = WithPhases();
  ASSERT_EQ(Check(t), "");
  for (const bool compress : {false, true}) {
    const Template back = Decoded(EncodeSections(t, compress));
    ASSERT_EQ(back.phases.size(), t.phases.size());
    for (size_t i = 0; i < t.phases.size(); i++) {
      EXPECT_EQ(back.phases[i].phase, t.phases[i].phase);
      EXPECT_EQ(back.phases[i].is_told, t.phases[i].is_told);
      EXPECT_EQ(back.phases[i].ms, t.phases[i].ms);
      EXPECT_EQ(back.phases[i].positions, t.phases[i].positions);
    }
  }
}

TEST(TemplatePhases, WithoutThemNothingHasChanged) {
  const std::vector<uint8_t> plain = Encode(SampleTemplate());
  EXPECT_EQ(plain[kMinorAt], 0);
  EXPECT_EQ(Encode(WithPhases())[kMinorAt], 1);
  EXPECT_TRUE(Decoded(plain).phases.empty());
}

// The section that each template has, written by hand.
Section Meta(const Template& t) {
  ByteWriter meta;
  meta.Varint(t.service_id.size());
  meta.Raw(t.service_id);
  meta.Varint(2);
  meta.Raw(std::string("{}"));
  return {kSectionMeta, meta.bytes()};
}

// As a program sees it that does not know the section.
TEST(TemplatePhases, UnknownSectionsAreSkipped) {
  const Template t = SampleTemplate();
  EXPECT_NO_THROW(Decoded(Assemble(t, {{77, {1, 2, 3}}, Meta(t)}, true)));
}

TEST(TemplatePhases, PhasesOfALaterVersionAreLeftOut) {
  const Template t = WithPhases();
  // The section by hand, with a phase that there is not yet.
  ByteWriter w;
  w.Varint(2);
  for (const uint8_t phase : {9, 1}) {
    w.Fixed(phase);
    w.Fixed(uint8_t{1});
    w.Varint(phase);
    w.Varint(0);
  }
  const Template back = Decoded(Assemble(t, {Meta(t), {kSectionPhases, w.bytes()}}, false));
  ASSERT_EQ(back.phases.size(), 1u);
  EXPECT_EQ(back.phases[0].phase, Phase::kWeights);
}

TEST(TemplatePhases, NonsenseIsRefused) {
  Template t = WithPhases();
  const auto decodes = [&](const std::vector<uint8_t>& section) {
    std::string error;
    const bool is_good =
        Decode(Assemble(t, {Meta(t), {kSectionPhases, section}}, false), &error).has_value();
    EXPECT_EQ(is_good, error.empty());
    return is_good;
  };
  EXPECT_TRUE(decodes({0}));
  EXPECT_FALSE(decodes({}));
  EXPECT_FALSE(decodes({200, 1}));                     // more than there are
  EXPECT_FALSE(decodes({1, 0, 1, 5}));                 // cut short
  EXPECT_FALSE(decodes({1, 0, 1, 5, 0xff, 0x7f, 1}));  // groups without end
  EXPECT_FALSE(decodes({2, 1, 1, 5, 0, 1, 1, 6, 0}));  // the same one twice
  t.phases.push_back({Phase::kInit, true, 0, {}});
  EXPECT_NE(Check(t), "");
}

TEST(TemplatePhases, NamesAreThoseOfTheProtocol) {
  for (const char* name : {"init", "weights", "compile", "graphs", "ready"}) {
    ASSERT_TRUE(ParsePhase(name)) << name;
    EXPECT_STREQ(PhaseName(*ParsePhase(name)), name);
  }
  EXPECT_FALSE(ParsePhase("Weights"));
  EXPECT_FALSE(ParsePhase(""));
}

class RecordedPhasesTest : public ::testing::Test {
 protected:
  RecordedPhasesTest() {
    recorder_.AddFile(1, {"a.py", 100 * kPage, 0, FileKind::kSmall, {}});
    recorder_.AddFile(2, {"b.safetensors", 1ull << 30, 0, FileKind::kSafetensors, {}});
  }
  static constexpr uint64_t kMs = 1'000'000;
  Recorder recorder_{0};
};

TEST_F(RecordedPhasesTest, TheModelIsSeenToBeBegun) {
  recorder_.Touch(kCommonGroup, 0, 0, 3, 10 * kMs);
  recorder_.Touch(0, 1, 0, 1, 20 * kMs);  // a header
  EXPECT_TRUE(recorder_.phases().empty());
  recorder_.Touch(0, 1, 1, kWeightsBeginBytes / kPage, 30 * kMs);
  recorder_.Touch(0, 1, kWeightsBeginBytes / kPage, 2 * kWeightsBeginBytes / kPage, 40 * kMs);
  const Template t = std::move(recorder_).Finish("abcd", 0, 0);
  ASSERT_EQ(t.phases.size(), 1u);
  EXPECT_EQ(t.phases[0].phase, Phase::kWeights);
  EXPECT_FALSE(t.phases[0].is_told);
  EXPECT_EQ(t.phases[0].ms, 30u);
  EXPECT_EQ(t.phases[0].positions[1].second, 3 * kPage);  // groups by number, the common one last
}

TEST_F(RecordedPhasesTest, WhatIsToldReplacesWhatWasSeenAndTheFirstTimeCounts) {
  recorder_.Mark(Phase::kInit, true, 1 * kMs);
  recorder_.Touch(0, 1, 0, 2 * kWeightsBeginBytes / kPage, 30 * kMs);
  recorder_.Mark(Phase::kWeights, true, 50 * kMs);
  recorder_.Mark(Phase::kWeights, true, 60 * kMs);
  recorder_.Mark(Phase::kWeights, false, 70 * kMs);
  const Template t = std::move(recorder_).Finish("abcd", 0, 0);
  ASSERT_EQ(t.phases.size(), 2u);
  EXPECT_EQ(t.phases[1].ms, 50u);
  EXPECT_TRUE(t.phases[1].is_told);
  EXPECT_EQ(Check(t), "");
}

}  // namespace
}  // namespace ppc::maio
