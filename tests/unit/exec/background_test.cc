// SPDX-License-Identifier: Apache-2.0
// A policy's slow work: ppc_context.background and background_remote.
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <future>
#include <stdexcept>
#include <thread>

#include "tests/unit/exec/executor_fixture.h"

namespace ppc {
namespace {

struct Pair {
  std::function<void()> work = [] {};
  std::function<void()> done = [] {};
};
void Work(void* arg) { static_cast<Pair*>(arg)->work(); }
void Done(void* arg) { static_cast<Pair*>(arg)->done(); }

class BackgroundTest : public ExecutorTest {
 protected:
  BackgroundTest() {
    policy_.init = [this](ppc_context* given) {
      context_ = given;
      return in_init_();
    };
  }
  ~BackgroundTest() override { runtime_.reset(); }
  int Give(Pair* pair) { return context_->background(context_, Work, Done, pair); }
  std::function<int()> in_init_ = [] { return 0; };
  ppc_context* context_ = nullptr;
  Pair pair_;
};

TEST_F(BackgroundTest, InSimulatedTimeItIsDoneInTheSameTurn) {
  std::vector<std::string> story;
  pair_.work = [&] { story.push_back("work"); };
  pair_.done = [&] { story.push_back("done"); };
  policy_.prefetch = [&](const miss_io&) {
    EXPECT_EQ(Give(&pair_), 0);
    story.push_back("hook");
  };
  Start();
  backend_.Push(MissEvent(1, 0, kMiB));
  Turn();
  EXPECT_EQ(story, (std::vector<std::string>{"hook", "work", "done"}));
}

TEST_F(BackgroundTest, HooksGoOnWhileItWorks) {
  std::promise<void> go;
  std::atomic<bool> is_done = false;
  std::thread::id worker;
  pair_.work = [&] {
    worker = std::this_thread::get_id();
    go.get_future().wait();
  };
  pair_.done = [&] { is_done = true; };
  int misses = 0;
  policy_.prefetch = [&](const miss_io&) {
    ++misses;
    EXPECT_TRUE(misses > 1 || Give(&pair_) == 0);
  };
  StartThreaded();
  for (uint64_t i = 0; i < 3; ++i) {
    backend_.Push(MissEvent(1, 4 * i * kMiB, kMiB));
    while (misses <= static_cast<int>(i)) runtime_->executor().Pump();
  }
  EXPECT_FALSE(is_done);
  go.set_value();
  while (!is_done) ASSERT_EQ(runtime_->executor().RunOnce(), Executor::End::kRunning);
  EXPECT_NE(worker, std::this_thread::get_id());
}

TEST_F(BackgroundTest, WhatWaitsForOtherMachinesHoldsUpNothingElse) {
  std::promise<void> go;
  bool is_done = false;
  bool is_remote_done = false;
  Pair remote{[&] { go.get_future().wait(); }, [&] { is_remote_done = true; }};
  pair_.done = [&] { is_done = true; };
  StartThreaded();
  ASSERT_EQ(context_->background_remote(context_, Work, Done, &remote), 0);
  ASSERT_EQ(Give(&pair_), 0);
  while (!is_done) ASSERT_EQ(runtime_->executor().RunOnce(), Executor::End::kRunning);
  EXPECT_FALSE(is_remote_done);
  go.set_value();
  while (!is_remote_done) ASSERT_EQ(runtime_->executor().RunOnce(), Executor::End::kRunning);
}

// A store that is not reachable any more keeps no policy from going.
TEST_F(BackgroundTest, TheEndDoesNotWaitForOtherMachines) {
  std::promise<void> go;
  bool has_begun = false;
  Pair remote{[&] { go.get_future().wait(); }, [] { ADD_FAILURE() << "nobody is there"; }};
  Pair queued{[&] { has_begun = true; }, [] { ADD_FAILURE() << "nobody is there"; }};
  StartThreaded();
  ASSERT_EQ(context_->background_remote(context_, Work, Done, &remote), 0);
  ASSERT_EQ(context_->background_remote(context_, Work, Done, &queued), 0);
  runtime_->Shutdown();
  EXPECT_TRUE(runtime_->IsStuck());
  EXPECT_FALSE(has_begun);
  EXPECT_EQ(context_->background_remote(context_, Work, Done, &queued), -ESHUTDOWN);
  go.set_value();
}

TEST_F(BackgroundTest, WorkReadsFilesOfTheMount) {
  backend_.AddFile(7, "model/head", kMiB, "header");
  std::string head(6, ' ');
  ppc_file_info info{};
  std::vector<std::string> names;
  pair_.work = [&] {
    EXPECT_EQ(context_->read(context_, "model/head", 0, head.data(), head.size()), 6);
    EXPECT_EQ(context_->file_info(context_, "model/head", &info), 0);
    EXPECT_EQ(context_->file_info(context_, "../outside", &info), -EINVAL);
    context_->stat(context_, "worked", 1);
    context_->log(context_, PPC_LOG_DEBUG, "worked");
  };
  StartThreaded();
  ASSERT_EQ(Give(&pair_), 0);
  runtime_->Shutdown();
  EXPECT_EQ(head, "header");
  EXPECT_EQ(info.size, kMiB);
}

// Templates that are being written when the policy goes are not lost.
TEST_F(BackgroundTest, WhatWasGivenIsDoneBeforeExit) {
  std::vector<std::string> story;
  Pair second{[] {},
              [&] {
                EXPECT_EQ(Give(&pair_), 0);  // done() may give another
                story.push_back("second");
              }};
  pair_.done = [&] { story.push_back("done"); };
  policy_.exit = [&] {
    story.push_back("exit");
    EXPECT_EQ(Give(&pair_), -ESHUTDOWN);
  };
  StartThreaded();
  ASSERT_EQ(Give(&pair_), 0);
  ASSERT_EQ(Give(&second), 0);
  runtime_->Shutdown();
  EXPECT_EQ(story, (std::vector<std::string>{"done", "second", "done", "exit"}));
}

TEST_F(BackgroundTest, ARefusedPolicyIsToldToo) {
  bool is_done = false;
  pair_.done = [&] { is_done = true; };
  in_init_ = [this] {
    EXPECT_EQ(Give(&pair_), 0);
    return -EACCES;
  };
  runtime_ = MakeRuntime(&backend_, policy_);
  EXPECT_FALSE(runtime_->Start().ok());
  EXPECT_TRUE(is_done);
}

TEST_F(BackgroundTest, WhatThrowsIsAFaultAndStillDone) {
  bool is_done = false;
  pair_.work = [] { throw std::runtime_error("broken"); };
  pair_.done = [&] {
    is_done = true;
    throw 7;
  };
  StartThreaded();
  ASSERT_EQ(Give(&pair_), 0);
  while (!is_done) (void)runtime_->executor().RunOnce();
  EXPECT_EQ(runtime_->host().Faults(), 2u);
  EXPECT_TRUE(runtime_->host().IsDropped());
  EXPECT_EQ(runtime_->executor().RunOnce(), Executor::End::kDropped);
  // A dropped policy is not called any more, but for what it is owed.
  is_done = false;
  pair_.work = [] {};
  ASSERT_EQ(Give(&pair_), 0);
  runtime_->Shutdown();
  EXPECT_TRUE(is_done);
}

TEST_F(BackgroundTest, WorkIsNeeded) {
  Start();
  EXPECT_EQ(context_->background(context_, nullptr, Done, &pair_), -EINVAL);
  EXPECT_EQ(context_->background(context_, Work, nullptr, &pair_), 0);
}

}  // namespace
}  // namespace ppc
