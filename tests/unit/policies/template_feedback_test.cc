// SPDX-License-Identifier: Apache-2.0
//
// What a start says of the template that it followed.
#include "policies/maio/template/template_feedback.h"

#include <gtest/gtest.h>

namespace ppc::maio {
namespace {

// A good one.
TemplateUse Good() {
  TemplateUse use;
  use.matched_events = 1000;
  use.listed_bytes = use.model_bytes = 1 << 30;
  use.dropped_bytes = 1 << 30;
  return use;
}

TEST(TemplateFeedback, EachErrorHasItsBound) {
  EXPECT_EQ(Judge(Good()).verdict, Verdict::kGood);
  const auto verdict = [](uint64_t TemplateUse::*member, uint64_t value) {
    TemplateUse use = Good();
    use.*member = value;
    return Judge(use).verdict;
  };
  EXPECT_EQ(verdict(&TemplateUse::foreign_events, 300), Verdict::kGood);
  EXPECT_EQ(verdict(&TemplateUse::foreign_events, 400), Verdict::kRecord);
  EXPECT_EQ(verdict(&TemplateUse::unknown_events, 100), Verdict::kGood);
  EXPECT_EQ(verdict(&TemplateUse::unknown_events, 200), Verdict::kRecord);
  EXPECT_EQ(verdict(&TemplateUse::refault_bytes, 50 << 20), Verdict::kGood);
  EXPECT_EQ(verdict(&TemplateUse::refault_bytes, 60 << 20), Verdict::kRecord);
  EXPECT_EQ(verdict(&TemplateUse::unread_bytes, 250 << 20), Verdict::kGood);
  EXPECT_EQ(verdict(&TemplateUse::unread_bytes, 260 << 20), Verdict::kRepair);
  EXPECT_EQ(verdict(&TemplateUse::unlisted_bytes, 250 << 20), Verdict::kGood);
  EXPECT_EQ(verdict(&TemplateUse::unlisted_bytes, 260 << 20), Verdict::kRepair);
}

TEST(TemplateFeedback, AFewEventsSayNothing) {
  TemplateUse use;
  use.matched_events = 10;
  use.foreign_events = 40;
  EXPECT_EQ(Judge(use).verdict, Verdict::kGood);
  use.foreign_events = 60;
  EXPECT_EQ(Judge(use).verdict, Verdict::kRecord);
}

TEST(TemplateFeedback, WhoIsReadElsewhereIsRecordedThoughMuchIsUnread) {
  TemplateUse use = Good();
  use.foreign_events = 1000;
  use.unread_bytes = use.model_bytes;
  EXPECT_EQ(Judge(use).verdict, Verdict::kRecord);
}

}  // namespace
}  // namespace ppc::maio
