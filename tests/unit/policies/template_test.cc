// SPDX-License-Identifier: Apache-2.0
//
// Template round trip, checks, store.
#include "policies/maio/template/template.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/unit/policies/template_samples.h"

namespace ppc::maio {
namespace {

TEST(Template, RoundTripIsExact) {
  Template t = SampleTemplate();
  ASSERT_EQ(Check(t), "");
  std::string error;
  std::optional<Template> back = Decode(Encode(t), &error);
  ASSERT_TRUE(back.has_value()) << error;
  EXPECT_EQ(back->flags, t.flags);
  EXPECT_EQ(back->service_id, t.service_id);
  EXPECT_EQ(back->created_ns, t.created_ns);
  EXPECT_EQ(back->generation, t.generation);
  EXPECT_EQ(back->meta, t.meta);
  ASSERT_EQ(back->files.size(), t.files.size());
  for (size_t i = 0; i < t.files.size(); i++) {
    EXPECT_EQ(back->files[i].path, t.files[i].path);
    EXPECT_EQ(back->files[i].size, t.files[i].size);
    EXPECT_EQ(back->files[i].mtime_ns, t.files[i].mtime_ns);
    EXPECT_EQ(back->files[i].kind, t.files[i].kind);
    EXPECT_EQ(back->files[i].fingerprint, t.files[i].fingerprint);
  }
  ASSERT_EQ(back->groups.size(), t.groups.size());
  for (size_t i = 0; i < t.groups.size(); i++) {
    EXPECT_EQ(back->groups[i].id, t.groups[i].id);
    EXPECT_TRUE(SameExtents(back->groups[i], t.groups[i])) << i;
    EXPECT_EQ(back->groups[i].time_ms, t.groups[i].time_ms);
    EXPECT_EQ(back->groups[i].first_ms, t.groups[i].first_ms);
    EXPECT_EQ(back->groups[i].repeat_bytes, t.groups[i].repeat_bytes);
  }
  EXPECT_EQ(Encode(*back), Encode(t));
}

TEST(Template, ALargeFileIsNoConfigurationWhateverItsName) {
  EXPECT_EQ(KindOfPath("tokenizer.json", 33 << 20), FileKind::kSmall);
  EXPECT_EQ(KindOfPath("sentencepiece.model"), FileKind::kSmall);
  EXPECT_EQ(KindOfPath("weights.model", 10ull << 30), FileKind::kOther);
  EXPECT_EQ(KindOfPath("libtorch_cuda.so", 2ull << 30), FileKind::kSmall);
  EXPECT_EQ(KindOfPath("x.safetensors", 10ull << 30), FileKind::kSafetensors);
}

TEST(Template, StridesAreShort) {
  Template t = SampleTemplate();
  size_t with = Encode(t).size();
  ChangeExtents(&t.groups[0], [](std::vector<Extent>& extents) {
    for (uint64_t i = 40; i < 1000; i++) extents.insert(extents.end() - 1, {2, i * 16, 4});
  });
  EXPECT_LE(Encode(t).size(), with + 8);
}

void SpoilFirst(Template* t, void (*spoil)(Extent&)) {
  ChangeExtents(&t->groups[0], [spoil](std::vector<Extent>& extents) { spoil(extents[0]); });
}

TEST(Template, RefusesWhatMustNotBeUsed) {
  struct Case {
    const char* name;
    void (*spoil)(Template*);
  };
  const Case kCases[] = {
      {"dotdot", [](Template* t) { t->files[0].path = "a/../b"; }},
      {"absolute", [](Template* t) { t->files[0].path = "/etc/passwd"; }},
      {"empty component", [](Template* t) { t->files[0].path = "a//b"; }},
      {"trailing slash", [](Template* t) { t->files[0].path = "a/"; }},
      {"dot", [](Template* t) { t->files[0].path = "./a"; }},
      {"NUL", [](Template* t) { t->files[0].path = std::string("a\0b", 3); }},
      {"empty", [](Template* t) { t->files[0].path = ""; }},
      {"beyond the end", [](Template* t) { SpoilFirst(t, [](Extent& e) { e.pages = 1 << 20; }); }},
      {"overflow", [](Template* t) { SpoilFirst(t, [](Extent& e) { e.page = ~0ull; }); }},
      {"empty extent", [](Template* t) { SpoilFirst(t, [](Extent& e) { e.pages = 0; }); }},
      {"unknown file", [](Template* t) { SpoilFirst(t, [](Extent& e) { e.file = 99; }); }},
      {"group twice", [](Template* t) { t->groups[1].id = 0; }},
      {"group number", [](Template* t) { t->groups[1].id = kMaxWorkers; }},
      {"file twice", [](Template* t) { t->files[1].path = t->files[0].path; }},
      {"huge file", [](Template* t) { t->files[0].size = ~0ull; }},
      {"service ID", [](Template* t) { t->service_id = "../../x"; }},
  };
  for (const Case& c : kCases) {
    Template t = SampleTemplate();
    c.spoil(&t);
    EXPECT_NE(Check(t), "") << c.name;
    std::string error;
    if (t.groups[0].extents[0].file == 99) continue;  // cannot be encoded at all
    EXPECT_FALSE(Decode(Encode(t), &error).has_value()) << c.name;
    EXPECT_NE(error, "") << c.name;
  }
}

// Each path costs a few bytes of the file, since it shares its beginning with the one before.
TEST(Template, ShortFilesMakeNoLongTables) {
  Template t = SampleTemplate();
  const std::string beginning = std::string(2000, 'a') + "/" + std::string(2000, 'b');
  for (int i = 0; i < 10000; i++) {
    TemplateFile file = t.files[0];
    file.path = beginning + std::to_string(i);
    t.files.push_back(file);
  }
  EXPECT_NE(Check(t), "");
  const std::vector<uint8_t> bytes = Encode(t);
  EXPECT_LT(bytes.size(), size_t{1} << 20);
  std::string error;
  EXPECT_FALSE(Decode(bytes, &error).has_value());
  EXPECT_NE(error.find("malformed section"), std::string::npos) << error;
}

TEST(Template, StoreIsAtomicAndLoadTellsWhy) {
  std::string dir = (std::filesystem::temp_directory_path() / "ppct_XXXXXX").string();
  ASSERT_NE(mkdtemp(dir.data()), nullptr);
  Template t = SampleTemplate();
  std::string error;
  std::string path = TemplatePath(dir, t.service_id);
  Template back;
  EXPECT_EQ(Load(path, &back, &error), -ENOENT);
  ASSERT_EQ(Store(dir, t, &error), 0) << error;
  t.generation++;
  ASSERT_EQ(Store(dir, t, &error), 0) << error;  // replaces
  ASSERT_EQ(Load(path, &back, &error), 0) << error;
  EXPECT_EQ(back.generation, 8u);
  size_t entries = 0;
  for (auto it : std::filesystem::directory_iterator(std::filesystem::path(path).parent_path())) {
    entries += it.is_regular_file();
  }
  EXPECT_EQ(entries, 1u);  // no temporary file left
  std::ofstream(path, std::ios::app) << "x";
  EXPECT_EQ(Load(path, &back, &error), -EINVAL);
  EXPECT_NE(error.find(path), std::string::npos);
  std::ofstream(path, std::ios::trunc) << "";
  EXPECT_EQ(Load(path, &back, &error), -EINVAL);
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);
  EXPECT_EQ(Load(path, &back, &error), -EINVAL);
  EXPECT_LT(Store(dir, t, &error), 0);
  EXPECT_LT(Store("/proc/nowhere", t, &error), 0);
  t.service_id = "..";
  EXPECT_EQ(Store(dir, t, &error), -EINVAL);
  std::filesystem::remove_all(dir);
}

// In containers two nodes may have the same host name and process number.
TEST(Template, StoringKeepsAnotherNodesFileAndRemovesLeftovers) {
  namespace fs = std::filesystem;
  std::string dir = (fs::temp_directory_path() / "ppct_XXXXXX").string();
  ASSERT_NE(mkdtemp(dir.data()), nullptr);
  Template t = SampleTemplate();
  std::string error;
  std::string path = TemplatePath(dir, t.service_id);
  fs::create_directory(fs::path(path).parent_path());
  char host[65] = {};
  gethostname(host, sizeof(host) - 1);
  std::string others = path + ".tmp." + host + "." + std::to_string(getpid());
  std::string leftover = path + ".tmp.0123456789abcdef";
  std::string stale = path + ".stale";
  for (const std::string& name : {others, leftover, stale}) std::ofstream(name) << "x";
  for (const std::string& name : {leftover, stale}) {
    fs::last_write_time(name, fs::file_time_type::clock::now() - std::chrono::hours(25));
  }
  ASSERT_EQ(Store(dir, t, &error), 0) << error;
  EXPECT_TRUE(fs::exists(others));
  EXPECT_FALSE(fs::exists(leftover));
  EXPECT_TRUE(fs::exists(stale));
  fs::remove_all(dir);
}

// Several writers and readers, as nodes on a shared store: whole templates only.
TEST(Template, ReadersSeeWholeTemplatesWhileWritersReplaceThem) {
  std::string dir = (std::filesystem::temp_directory_path() / "ppct_XXXXXX").string();
  ASSERT_NE(mkdtemp(dir.data()), nullptr);
  Template t = SampleTemplate();
  std::string error;
  ASSERT_EQ(Store(dir, t, &error), 0) << error;
  std::vector<pid_t> writers;
  for (uint64_t writer = 0; writer < 2; writer++) {
    pid_t pid = fork();
    if (pid == 0) {
      bool good = true;
      for (uint64_t i = 0; i < 100; i++) {
        t.generation = writer * 1000 + i;
        t.meta = "\"" + std::string(i * 37, static_cast<char>('a' + writer)) + "\"";
        good = good && Store(dir, t, &error) == 0;
      }
      _exit(good ? 0 : 1);
    }
    writers.push_back(pid);
  }
  Template back;
  for (int i = 0; i < 300; i++)
    ASSERT_EQ(Load(TemplatePath(dir, t.service_id), &back, &error), 0) << error;
  for (pid_t pid : writers) {
    int status = -1;
    ASSERT_EQ(waitpid(pid, &status, 0), pid);
    EXPECT_EQ(status, 0);
  }
  ASSERT_EQ(Load(TemplatePath(dir, t.service_id), &back, &error), 0) << error;
  EXPECT_EQ(back.generation % 1000, 99u);
  std::filesystem::remove_all(dir);
}

TEST(Template, JsonNamesEverything) {
  auto json = nlohmann::json::parse(ToJson(SampleTemplate(), true));
  EXPECT_EQ(json["files"].size(), 5u);
  EXPECT_EQ(json["groups"][2]["group"], "common");
  EXPECT_EQ(json["groups"][0]["sequence"].size(), 47u);
  EXPECT_EQ(json["groups"][0]["sequence"][1]["offset"], 200 * 4096);
  EXPECT_FALSE(
      nlohmann::json::parse(ToJson(SampleTemplate(), false))["groups"][0].contains("sequence"));
  Template odd = SampleTemplate();
  odd.files[0].path =
      "bad\xff"
      "name";
  odd.meta = "not json";
  EXPECT_NO_THROW(ToJson(odd, true));
  odd.flags = kComplete | kOverflow;
  const std::vector<std::string> names = {"complete", "overflow"};
  EXPECT_EQ(nlohmann::json::parse(ToJson(odd, false))["flags"], names);
}

TEST(Template, DistinctBytesCountsSharedPagesOnce) {
  Template t;
  t.service_id = "abcd";
  t.files.push_back({"a", 1 << 20, 0, FileKind::kOther, {}});
  TemplateGroup a;
  a.extents = {{0, 0, 100}};
  TemplateGroup b;
  b.id = 1;
  b.extents = {{0, 50, 100}, {0, 10, 5}};
  t.groups = {a, b};
  EXPECT_EQ(DistinctBytes(t), 150 * kPage);
  EXPECT_EQ(SequenceBytes(b), 105 * kPage);
}

}  // namespace
}  // namespace ppc::maio
