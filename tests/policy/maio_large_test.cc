// SPDX-License-Identifier: Apache-2.0
//
// A template of the largest kind is cut into tables in the background, not between two events.
#include <ctime>

#include "policies/maio/template/template.h"
#include "tests/policy/maio_fixture.h"

namespace ppc::test {
namespace {

double CpuSeconds() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

TEST_F(MaioTest, EventsDoNotWaitForTheTablesOfALargeTemplate) {
  constexpr uint32_t kWorkers = 16, kFiles = 32, kTensors = 1000;
  constexpr uint64_t kFileBytes = 4ull << 30;
  FakeHost host;
  host.template_dir = store_.path();
  maio::Template t;
  t.service_id = kId;
  t.flags = maio::kComplete | maio::kTraced;
  for (uint32_t f = 0; f < kFiles; f++) {
    maio::TemplateFile file;
    file.path = "model-" + std::to_string(f) + ".safetensors";
    file.size = kFileBytes;
    file.mtime_ns = 1;
    file.kind = maio::FileKind::kSafetensors;
    t.files.push_back(file);
    host.AddFile(file.path, file.size);
  }
  // Each tensor's slices, of sizes that fit no grid.
  for (uint32_t w = 0; w < kWorkers; w++) {
    maio::TemplateGroup group;
    group.id = w;
    for (uint32_t f = 0; f < kFiles; f++) {
      for (uint32_t i = 0; i < kTensors; i++)
        group.extents.push_back({f, i * uint64_t{1024} + w * 61, 61});
    }
    t.groups.push_back(std::move(group));
  }
  ASSERT_EQ(maio::Check(t), "");
  std::string error;
  ASSERT_EQ(maio::Store(store_.path(), t, &error), 0) << error;

  const PolicyLibrary library(PolicyPath("maio"));
  ASSERT_EQ(library.ops()->ppc_init(host.context()), 0);
  const nlohmann::json start = {
      {"op", "service_start"}, {"service_id", kId}, {"service", 1}, {"workers", kWorkers}};
  double between = 0, beside = 0;
  const double began = CpuSeconds();
  const char* reply = library.ops()->ppc_control(start.dump().c_str());
  ASSERT_NE(reply, nullptr);
  between += CpuSeconds() - began;
  ASSERT_FALSE(host.background.empty());
  const FakeHost::BackgroundWork next = host.background.front();
  host.background.pop_front();
  const double works = CpuSeconds();
  next.work(next.arg);
  beside += CpuSeconds() - works;
  const double tells = CpuSeconds();
  next.done(next.arg);
  between += CpuSeconds() - tells;
  const nlohmann::json status =
      nlohmann::json::parse(library.ops()->ppc_control(R"({"op": "status"})"));
  EXPECT_EQ(status["services"][0]["mode"], "use") << status;
  RecordProperty("share_between_events", std::to_string(between / (between + beside)));
  EXPECT_LT(between, beside / 5) << "seconds of CPU between two events, and beside them";
  host.RunBackground();
  library.ops()->ppc_exit();
}

}  // namespace
}  // namespace ppc::test
