// SPDX-License-Identifier: Apache-2.0
//
// Directories that a start lists: those of its small files, and what lies in them.
#include "policies/maio/directories.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace ppc::maio
