// SPDX-License-Identifier: Apache-2.0
// What is learnt of a command by the files that it opens.
#include "extras/learnt_models/learnt_model.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "extras/learnt_models/open_models.h"
#include "tests/unit/child.h"
#include "tests/unit/temp_tree.h"

namespace ppc::ctl {
namespace {

namespace fs = std::filesystem;

class LearntModelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Put("llama/model.safetensors");
    const std::string repository = "hub/models--acme--tiny";
    Put(repository + "/blobs/0fabc123");
    Put(repository + "/refs/main", "abc123\n");
    tree_.Link("/" + repository + "/snapshots/abc123/model.safetensors", "../../blobs/0fabc123");
  }
  void Put(const std::string& file, const std::string& text = "x") {
    tree_.Write("/" + file, text);
  }

  const TempTree tree_;
  const std::string dir_ = fs::canonical(tree_.Root());
};

TEST_F(LearntModelTest, TheLargestModelThatWasOpenedIsLearnt) {
  EXPECT_EQ(LargestModel({}), std::nullopt);
  const auto one = LargestModel({{"/a/x.gguf", 100}, {"/b/y.bin", 10}});
  EXPECT_EQ(one->model.path, "/a/x.gguf");
  EXPECT_EQ(one->model.directory, "/a");
  const auto shards = LargestModel({{"/a/x.gguf", 100}, {"/b/1.bin", 60}, {"/b/2.bin", 60}});
  EXPECT_EQ(shards->model.path, "/b");
  EXPECT_EQ(shards->bytes, 120U);
  const auto hub = LargestModel({{"/h/models--a--b/blobs/0f", 5}});
  EXPECT_EQ(hub->model.directory, "/h/models--a--b");
}

TEST_F(LearntModelTest, WhatWasLearntIsFoundAgainByTheSameWords) {
  const LearntModel learnt(dir_ + "/store", {"load", "it"});
  EXPECT_EQ(learnt.Load(), std::nullopt);
  ASSERT_TRUE(learnt.Save({{dir_ + "/llama", dir_ + "/llama"}, 1, 1}));
  EXPECT_EQ(learnt.Load()->path, dir_ + "/llama");
  EXPECT_EQ(LearntModel(dir_ + "/store", {"load", "that"}).Load(), std::nullopt);
  const std::string hub = dir_ + "/hub/models--acme--tiny";
  ASSERT_TRUE(learnt.Save({{hub, hub}, 1, 1}));
  EXPECT_EQ(learnt.Load()->path, hub + "/snapshots/abc123");
  fs::remove_all(hub);
  EXPECT_EQ(learnt.Load(), std::nullopt) << "it is gone";
}

TEST_F(LearntModelTest, SeesWhatDescendantsHaveOpen) {
  Put("big/w.safetensors");
  fs::resize_file(dir_ + "/big/w.safetensors", 1 << 20);
  Put("big/out.safetensors");
  fs::resize_file(dir_ + "/big/out.safetensors", 1 << 20);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const std::string script = "(exec 3<" + dir_ + "/big/w.safetensors 4>>" + dir_ +
                             "/big/out.safetensors 5<" + dir_ +
                             "/llama/model.safetensors; echo up; sleep 30) & wait";
  const pid_t pid = StartChild([&] {
    setpgid(0, 0);
    dup2(ends[1], STDOUT_FILENO);
    execl("/bin/sh", "sh", "-c", script.c_str(), nullptr);
  });
  close(ends[1]);
  char byte = 0;
  ASSERT_EQ(read(ends[0], &byte, 1), 1);
  FileSizes files;
  EXPECT_TRUE(AddOpenModels({}, pid, 4096, files));
  EXPECT_FALSE(AddOpenModels({}, pid, 4096, files)) << "nothing new";
  EXPECT_EQ(files, (FileSizes{{dir_ + "/big/w.safetensors", 1 << 20}}));
  kill(-pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  close(ends[0]);
}

}  // namespace
}  // namespace ppc::ctl
