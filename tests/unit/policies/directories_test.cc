// SPDX-License-Identifier: Apache-2.0
// Directories that a start lists: those of its small files, and what lies in them.
#include "policies/maio/follow/directories.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace ppc::maio {
namespace {

// What is asked for, and how often.
std::map<std::string, int> listed;
std::mutex listed_mutex;

int ListDir(const ppc_context*, const char* path, int (*entry)(void*, const char*, char),
            void* arg) {
  const std::lock_guard lock(listed_mutex);
  listed[path]++;
  if (std::string(path) == "gone") return -2;
  if (std::string(path).find('/') != std::string::npos) return 0;
  for (const char* name : {"__pycache__", "sub"}) entry(arg, name, 'd');
  entry(arg, "file.py", 'f');
  entry(arg, "link", 'l');
  return 0;
}

TEST(DirectoriesTest, AreThoseOfManySmallFilesInTheirOrder) {
  Template t;
  const auto add = [&](const std::string& path, FileKind kind) {
    t.files.emplace_back().path = path;
    t.files.back().kind = kind;
  };
  add("model/a.safetensors", FileKind::kSafetensors);
  add("top.py", FileKind::kSmall);
  for (int i = 0; i < 254; i++) add("b/" + std::to_string(i), FileKind::kSmall);
  EXPECT_TRUE(SmallDirectories(t).empty());
  add("a/c/x", FileKind::kSmall);
  EXPECT_EQ(SmallDirectories(t), (std::vector<std::string>{"b", "a/c"}));
}

TEST(DirectoriesTest, EachIsListedOnceWithTheDirectoriesInIt) {
  listed.clear();
  ppc_context context = {};
  context.list_dir = ListDir;
  std::vector<std::string> directories = {"gone", "p0/sub"};
  for (int i = 0; i < 100; i++) directories.push_back("p" + std::to_string(i));
  ReadDirectories(&context, directories);
  EXPECT_EQ(listed["gone"], 1);
  EXPECT_EQ(listed.size(), 1 + 3 * 100u);
  for (const auto& [path, times] : listed) EXPECT_EQ(times, 1) << path;
}

TEST(DirectoriesTest, OfManyFilesTheDirectoriesAreListedFirst) {
  listed.clear();
  ppc_context context = {};
  context.list_dir = ListDir;
  context.file_info = [](const ppc_context*, const char* path, ppc_file_info* out) {
    const std::string name = path;
    const std::lock_guard lock(listed_mutex);
    EXPECT_EQ(listed[name.substr(0, name.find('/'))], 1) << name;
    out->file = 1 + std::stoul(name.substr(name.find('/') + 1));
    return name == "a/7" ? -ENOENT : 0;
  };
  std::vector<std::string> paths;
  for (int i = 0; i < 200; i++) paths.push_back((i % 2 == 0 ? "b/" : "a/") + std::to_string(i));
  const std::vector<FileLookup> found = LookUp(&context, paths);
  ASSERT_EQ(found.size(), paths.size());
  for (size_t i = 0; i < found.size(); i++) {
    EXPECT_EQ(found[i].info.file, i == 7 ? 0 : i + 1);
    EXPECT_EQ(found[i].is_gone, i == 7);
  }
  EXPECT_EQ(listed.size(), 2u);
}

TEST(DirectoriesTest, OfALargeDirectoryOnlyTheBeginningIsListed) {
  static size_t entries;
  entries = 0;
  ppc_context context = {};
  context.list_dir = [](const ppc_context*, const char*, int (*entry)(void*, const char*, char),
                        void* arg) {
    while (entries < 100'000 && entry(arg, "file.py", 'f') == 0) entries++;
    return 0;
  };
  ReadDirectories(&context, {"large"});
  EXPECT_GT(entries, 1000u);
  EXPECT_LT(entries, 10'000u);
}

}  // namespace
}  // namespace ppc::maio
