// SPDX-License-Identifier: Apache-2.0
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

#include "tests/unit/child.h"
#include "tests/unit/has.h"
#include "tests/unit/policies/template_samples.h"
#include "tests/unit/temp_tree.h"

namespace ppc::maio {
namespace {

class TemplateTest : public testing::Test {
 protected:
  TempTree tree_;
  Template t_ = SampleTemplate();
  const std::string path_ = TemplatePath(tree_.Root(), t_.service_id);
  std::string error_;
};

TEST_F(TemplateTest, RoundTripIsExact) {
  ASSERT_EQ(Check(t_), "");
  const Template back = Decoded(Encode(t_));
  EXPECT_EQ(back.flags, t_.flags);
  EXPECT_EQ(back.service_id, t_.service_id);
  EXPECT_EQ(back.created_ns, t_.created_ns);
  EXPECT_EQ(back.generation, t_.generation);
  EXPECT_EQ(back.meta, t_.meta);
  ASSERT_EQ(back.files.size(), t_.files.size());
  for (size_t i = 0; i < t_.files.size(); i++) {
    EXPECT_EQ(back.files[i].path, t_.files[i].path);
    EXPECT_EQ(back.files[i].size, t_.files[i].size);
    EXPECT_EQ(back.files[i].mtime_ns, t_.files[i].mtime_ns);
    EXPECT_EQ(back.files[i].kind, t_.files[i].kind);
    EXPECT_EQ(back.files[i].fingerprint, t_.files[i].fingerprint);
  }
  ASSERT_EQ(back.groups.size(), t_.groups.size());
  for (size_t i = 0; i < t_.groups.size(); i++) {
    EXPECT_EQ(back.groups[i].id, t_.groups[i].id);
    EXPECT_TRUE(SameExtents(back.groups[i], t_.groups[i])) << i;
    EXPECT_EQ(back.groups[i].time_ms, t_.groups[i].time_ms);
    EXPECT_EQ(back.groups[i].first_ms, t_.groups[i].first_ms);
    EXPECT_EQ(back.groups[i].repeat_bytes, t_.groups[i].repeat_bytes);
  }
  EXPECT_EQ(Encode(back), Encode(t_));
}

TEST_F(TemplateTest, ALargeFileIsNoConfigurationWhateverItsName) {
  EXPECT_EQ(KindOfPath("tokenizer.json", 33 << 20), FileKind::kSmall);
  EXPECT_EQ(KindOfPath("sentencepiece.model"), FileKind::kSmall);
  EXPECT_EQ(KindOfPath("weights.model", 10ull << 30), FileKind::kOther);
  EXPECT_EQ(KindOfPath("libtorch_cuda.so", 2ull << 30), FileKind::kSmall);
  EXPECT_EQ(KindOfPath("x.safetensors", 10ull << 30), FileKind::kSafetensors);
}

TEST_F(TemplateTest, StridesAreShort) {
  size_t with = Encode(t_).size();
  ChangeExtents(&t_.groups[0], [](std::vector<Extent>& extents) {
    for (uint64_t i = 40; i < 1000; i++) extents.insert(extents.end() - 1, {2, i * 16, 4});
  });
  EXPECT_LE(Encode(t_).size(), with + 8);
}

void SpoilFirst(Template* t, void (*spoil)(Extent&)) {
  ChangeExtents(&t->groups[0], [spoil](std::vector<Extent>& extents) { spoil(extents[0]); });
}

TEST_F(TemplateTest, RefusesWhatMustNotBeUsed) {
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
TEST_F(TemplateTest, ShortFilesMakeNoLongTables) {
  const std::string beginning = std::string(2000, 'a') + "/" + std::string(2000, 'b');
  for (int i = 0; i < 10000; i++) {
    TemplateFile file = t_.files[0];
    file.path = beginning + std::to_string(i);
    t_.files.push_back(file);
  }
  EXPECT_NE(Check(t_), "");
  const std::vector<uint8_t> bytes = Encode(t_);
  EXPECT_LT(bytes.size(), size_t{1} << 20);
  EXPECT_FALSE(Decode(bytes, &error_).has_value());
  EXPECT_TRUE(Has(error_, "malformed section"));
}

TEST_F(TemplateTest, StoreIsAtomicAndLoadTellsWhy) {
  Template back;
  EXPECT_EQ(Load(path_, &back, &error_), -ENOENT);
  ASSERT_EQ(Store(tree_.Root(), t_, &error_), 0) << error_;
  t_.generation++;
  ASSERT_EQ(Store(tree_.Root(), t_, &error_), 0) << error_;  // replaces
  ASSERT_EQ(Load(path_, &back, &error_), 0) << error_;
  EXPECT_EQ(back.generation, 8u);
  size_t entries = 0;
  for (auto it : std::filesystem::directory_iterator(std::filesystem::path(path_).parent_path())) {
    entries += it.is_regular_file();
  }
  EXPECT_EQ(entries, 1u);  // no temporary file left
  std::ofstream(path_, std::ios::app) << "x";
  EXPECT_EQ(Load(path_, &back, &error_), -EINVAL);
  EXPECT_TRUE(Has(error_, path_));
  std::ofstream(path_, std::ios::trunc) << "";
  EXPECT_EQ(Load(path_, &back, &error_), -EINVAL);
  std::filesystem::remove(path_);
  std::filesystem::create_directory(path_);
  EXPECT_EQ(Load(path_, &back, &error_), -EINVAL);
  EXPECT_LT(Store(tree_.Root(), t_, &error_), 0);
  EXPECT_LT(Store("/proc/nowhere", t_, &error_), 0);
  t_.service_id = "..";
  EXPECT_EQ(Store(tree_.Root(), t_, &error_), -EINVAL);
}

// In containers two nodes may have the same host name and process number.
TEST_F(TemplateTest, StoringKeepsAnotherNodesFileAndRemovesLeftovers) {
  namespace fs = std::filesystem;
  fs::create_directory(fs::path(path_).parent_path());
  char host[65] = {};
  gethostname(host, sizeof(host) - 1);
  std::string others = path_ + ".tmp." + host + "." + std::to_string(getpid());
  std::string leftover = path_ + ".tmp.0123456789abcdef";
  std::string stale = path_ + ".stale";
  for (const std::string& name : {others, leftover, stale}) std::ofstream(name) << "x";
  for (const std::string& name : {leftover, stale}) {
    fs::last_write_time(name, fs::file_time_type::clock::now() - std::chrono::hours(25));
  }
  ASSERT_EQ(Store(tree_.Root(), t_, &error_), 0) << error_;
  EXPECT_TRUE(fs::exists(others));
  EXPECT_FALSE(fs::exists(leftover));
  EXPECT_TRUE(fs::exists(stale));
}

// Several writers and readers, as nodes on a shared store: whole templates only.
TEST_F(TemplateTest, ReadersSeeWholeTemplatesWhileWritersReplaceThem) {
  ASSERT_EQ(Store(tree_.Root(), t_, &error_), 0) << error_;
  std::vector<pid_t> writers;
  for (uint64_t writer = 0; writer < 2; writer++) {
    writers.push_back(StartChild([&] {
      bool good = true;
      for (uint64_t i = 0; i < 100; i++) {
        t_.generation = writer * 1000 + i;
        t_.meta = "\"" + std::string(i * 37, static_cast<char>('a' + writer)) + "\"";
        good = good && Store(tree_.Root(), t_, &error_) == 0;
      }
      return good ? 0 : 1;
    }));
  }
  Template back;
  for (int i = 0; i < 300; i++) ASSERT_EQ(Load(path_, &back, &error_), 0) << error_;
  for (const pid_t pid : writers) EXPECT_EQ(EndOf(pid), 0);
  ASSERT_EQ(Load(path_, &back, &error_), 0) << error_;
  EXPECT_EQ(back.generation % 1000, 99u);
}

TEST_F(TemplateTest, DistinctBytesCountsSharedPagesOnce) {
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
