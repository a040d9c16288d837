// SPDX-License-Identifier: Apache-2.0
#include "daemon/backend/observer/observer_thread.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <barrier>
#include <cerrno>
#include <future>
#include <thread>
#include <vector>

#include "daemon/base/clock.h"

namespace ppc {
namespace {

ObserverThread::Options OptionsOfRoot() {
  struct stat info {};
  (void)stat("/", &info);
  return {.dir = "/", .dev = info.st_dev, .ino = info.st_ino, .look = [] {
            return ObserverThread::Looked{kNsPerSec, false};
          }};
}

ObserverThread::Answer Number(uint64_t file) { return {FileInfo{.file = file}, ""}; }

TEST(ObserverThread, AnswersManyQuestionsSideBySide) {
  constexpr int kQuestions = 16;
  // Each waits for all others, as for a disk that answers them together.
  std::barrier all(kQuestions);
  ObserverThread worker(nullptr, OptionsOfRoot());
  std::vector<uint64_t> answers(kQuestions);
  {
    std::vector<std::jthread> askers;
    for (int i = 0; i < kQuestions; i++) {
      askers.emplace_back([&, i] {
        const ObserverThread::Answer answer = worker.Ask([&all, i] {
          all.arrive_and_wait();
          return Number(static_cast<uint64_t>(i) + 1);
        });
        if (answer.info) answers[static_cast<size_t>(i)] = answer.info->file;
      });
    }
  }
  for (size_t i = 0; i < answers.size(); i++) EXPECT_EQ(answers[i], i + 1);
}

TEST(ObserverThread, WhatIsAskedOnceIsAnsweredByTheThreadItself) {
  ObserverThread worker(nullptr, OptionsOfRoot());
  for (uint64_t i = 1; i <= 100; i++)
    EXPECT_EQ(worker.Ask([i] { return Number(i); }).info->file, i);
}

TEST(ObserverThread, NobodyWaitsForAFileSystemThatDoesNotAnswer) {
  std::promise<void> answers;
  const std::shared_future<void> future = answers.get_future().share();
  ObserverThread worker(nullptr, OptionsOfRoot());
  const auto hang = [future] {
    future.wait();
    return Number(1);
  };
  const ObserverThread::Answer late = worker.Ask(hang);
  ASSERT_FALSE(late.info);
  EXPECT_EQ(late.info.error().code, ETIMEDOUT);
  // A thread that waits gives up its CPU.
  const auto waits = [] {
    rusage usage{};
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nvcsw;
  };
  const long before = waits();
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(worker.Ask([] { return Number(2); }).info);
  EXPECT_LT(waits() - before, 100);
  answers.set_value();
  // It answers again: that is noticed.
  const uint64_t deadline = MonotonicNs() + 20 * kNsPerSec;
  bool is_answered = false;
  while (!is_answered && MonotonicNs() < deadline)
    is_answered = static_cast<bool>(worker.Ask([] { return Number(3); }).info);
  EXPECT_TRUE(is_answered);
}

}  // namespace
}  // namespace ppc
