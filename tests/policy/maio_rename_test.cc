// SPDX-License-Identifier: Apache-2.0
//
// A template that was recorded when the directory above the model was registered, or the model's
// own.
#include <gtest/gtest.h>

#include <string>

#include "policies/maio/template/template.h"
#include "tests/policy/maio_fixture.h"

namespace ppc::test {
namespace {

constexpr uint64_t kBytes = 8 << 20;

class MaioRenameTest : public MaioTest {
 protected:
  // Of a model in `recorded`, which is in `there` now ("" or "q/"); what the service does.
  std::string ModeOf(const std::string& recorded, const std::string& there, uint64_t bytes = kBytes,
                     const std::string& beside = "") {
    maio::Template t;
    t.service_id = kId;
    t.flags = maio::kComplete | maio::kTraced;
    AddFile(&t, recorded + "config.json", 4096, maio::FileKind::kSmall);
    AddFile(&t, recorded + "model.safetensors", kBytes, maio::FileKind::kSafetensors);
    if (!beside.empty()) AddFile(&t, beside, 4096, maio::FileKind::kSmall);
    t.groups.emplace_back().id = 0;
    t.groups.back().extents.push_back({1, 0, kBytes / kPage});
    std::string error;
    EXPECT_EQ(maio::Check(t), "");
    EXPECT_EQ(maio::Store(store_.path(), t, &error), 0) << error;
    FakeHost host;
    host.template_dir = store_.path();
    host.AddFile(there + "config.json", 4096);
    host.AddFile(there + "model.safetensors", bytes);
    const PolicyLibrary library(PolicyPath("maio"));
    EXPECT_EQ(library.ops()->ppc_init(host.context()), 0);
    const nlohmann::json start = {{"op", "service_start"},
                                  {"service_id", kId},
                                  {"service", 1},
                                  {"params", {{"path", there}}}};
    (void)library.ops()->ppc_control(start.dump().c_str());
    host.RunBackground();
    const nlohmann::json status =
        nlohmann::json::parse(library.ops()->ppc_control(R"({"op": "status"})"));
    library.ops()->ppc_exit();
    return status["services"][0]["mode"];
  }
  static void AddFile(maio::Template* t, const std::string& path, uint64_t bytes,
                      maio::FileKind kind) {
    maio::TemplateFile& file = t->files.emplace_back();
    file.path = path;
    file.size = bytes;
    file.mtime_ns = 1;
    file.kind = kind;
  }
};

TEST_F(MaioRenameTest, OfTheDirectoryAbove) { EXPECT_EQ(ModeOf("q/", ""), "use"); }
TEST_F(MaioRenameTest, OfTheModelsOwn) { EXPECT_EQ(ModeOf("", "q/"), "use"); }
TEST_F(MaioRenameTest, OfOneFarAbove) { EXPECT_EQ(ModeOf("a/b/q/", "q/"), "use"); }
TEST_F(MaioRenameTest, TheSameDirectory) { EXPECT_EQ(ModeOf("q/", "q/"), "use"); }
TEST_F(MaioRenameTest, AnotherModelOfThatNameIsRecorded) {
  EXPECT_EQ(ModeOf("q/", "", 2 * kBytes), "record");
}
TEST_F(MaioRenameTest, NoTwoFilesGetOneName) {
  EXPECT_EQ(ModeOf("q/", "", kBytes, "config.json"), "record");
}

}  // namespace
}  // namespace ppc::test
