// SPDX-License-Identifier: Apache-2.0
#include "daemon/exec/job_queue.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <future>
#include <string>
#include <thread>
#include <vector>

namespace ppc {
namespace {

bool IsReadable(int fd) {
  pollfd wait{fd, POLLIN, 0};
  return poll(&wait, 1, 0) == 1;
}

void WaitFor(const JobQueue& worker) {
  pollfd wait{worker.fd(), POLLIN, 0};
  ASSERT_EQ(poll(&wait, 1, -1), 1);
}

TEST(JobQueueTest, WorkIsElsewhereAndDoneIsHereBothInOrder) {
  JobQueue worker("test", /*manual=*/false);
  std::vector<int> worked;
  std::vector<int> done;
  std::thread::id thread;
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(worker
                    .Submit(
                        [&, i] {
                          thread = std::this_thread::get_id();
                          worked.push_back(i);
                        },
                        [&, i] {
                          EXPECT_NE(thread, std::this_thread::get_id());
                          done.push_back(i);
                        })
                    .ok());
  }
  while (done.size() < 100) {
    WaitFor(worker);
    worker.ClearWake();
    worker.RunDone();
  }
  EXPECT_TRUE(std::is_sorted(done.begin(), done.end()));
  EXPECT_EQ(worked, done);
  EXPECT_EQ(worker.Pending(), 0u);
}

TEST(JobQueueTest, NothingKeepsTheCallerWaitingForWork) {
  JobQueue worker("test", /*manual=*/false);
  std::promise<void> go;
  bool is_done = false;
  ASSERT_TRUE(worker.Submit([&] { go.get_future().wait(); }, [&] { is_done = true; }).ok());
  EXPECT_EQ(worker.RunDone(), 0u);
  EXPECT_EQ(worker.Pending(), 1u);
  EXPECT_FALSE(is_done);
  go.set_value();
  worker.Finish();
  EXPECT_TRUE(is_done);
}

TEST(JobQueueTest, WhereAJobHangsAnotherThreadGoesOn) {
  JobQueue worker("test", /*manual=*/false, {}, /*most_threads=*/2);
  std::promise<void> go;
  bool is_done = false;
  ASSERT_TRUE(worker.Submit([&] { go.get_future().wait(); }, nullptr).ok());
  ASSERT_TRUE(worker.Submit(nullptr, [&] { is_done = true; }).ok());
  while (!is_done) {
    worker.RunDone();
    std::this_thread::yield();
  }
  EXPECT_EQ(worker.Pending(), 1u);
  go.set_value();
  worker.Finish();
}

TEST(JobQueueTest, WhatGoesOnIsTakenWhereThereIsNoPlace) {
  JobQueue worker("test", /*manual=*/true);
  while (worker.Submit(nullptr, nullptr)) {
  }
  bool is_done = false;
  EXPECT_TRUE(worker.Continue(nullptr, [&] { is_done = true; }).ok());
  EXPECT_FALSE(is_done);
  worker.RunDone();
  EXPECT_TRUE(is_done);
  worker.Finish();
  EXPECT_EQ(worker.Continue(nullptr, nullptr).error().code, ESHUTDOWN);
}

TEST(JobQueueTest, WhatWorkTellsDoesNotWaitForItsEnd) {
  JobQueue queue("test", /*manual=*/false);
  std::promise<void> goes_on;
  std::string order;
  const auto work = [&] {
    queue.Tell([&] { order += "a"; });
    queue.Tell([&] { order += "b"; });
    goes_on.get_future().wait();
  };
  ASSERT_TRUE(queue.Submit(work, [&] { order += "c"; }));
  while (order.size() < 2) queue.RunDone();
  EXPECT_EQ(order, "ab");
  goes_on.set_value();
  queue.Finish();
  EXPECT_EQ(order, "abc");
}

TEST(JobQueueTest, AManualOneWorksWhenItIsTold) {
  JobQueue worker("test", /*manual=*/true);
  std::vector<std::string> story;
  ASSERT_TRUE(
      worker.Submit([&] { story.push_back("work"); }, [&] { story.push_back("done"); }).ok());
  ASSERT_TRUE(worker.Submit([&] { story.push_back("work 2"); }, nullptr).ok());
  EXPECT_TRUE(story.empty());
  EXPECT_TRUE(IsReadable(worker.fd()));
  worker.ClearWake();
  EXPECT_EQ(worker.RunDone(), 1u);
  EXPECT_EQ(story, (std::vector<std::string>{"work", "work 2", "done"}));
  EXPECT_FALSE(IsReadable(worker.fd()));
  EXPECT_EQ(worker.RunDone(), 0u);
}

// A slow job delays the jobs behind it, and no other queue.
TEST(JobQueueTest, AManualOneTakesItsTime) {
  std::vector<std::string> story;
  bool goes_on = false;
  JobQueue worker("test", /*manual=*/true,
                  {[&] { story.emplace_back("begins"); }, [&] { return goes_on; }});
  const auto say = [&](const char* text) { return [&story, text] { story.emplace_back(text); }; };
  ASSERT_TRUE(worker.Submit(say("work"), say("done")).ok());
  ASSERT_TRUE(worker.Submit([&] { goes_on = true; }, say("done 2")).ok());
  ASSERT_TRUE(worker.Submit(say("work 3"), say("done 3")).ok());
  EXPECT_EQ(worker.RunDone(), 1u);
  EXPECT_EQ(story, (std::vector<std::string>{"begins", "work", "begins", "done"}));
  story.clear();
  EXPECT_EQ(worker.RunDone(), 0u);
  EXPECT_TRUE(story.empty());
  goes_on = false;
  EXPECT_EQ(worker.RunDone(), 2u);
  EXPECT_EQ(story, (std::vector<std::string>{"begins", "work 3", "done 2", "done 3"}));
  goes_on = true;
  ASSERT_TRUE(worker.Submit(nullptr, say("done 4")).ok());
  worker.Finish();
  EXPECT_EQ(story.back(), "done 4");
}

// A turn of the executor ends, however much what is done gives to do.
TEST(JobQueueTest, WhatDoneSubmitsHasItsTurnLater) {
  JobQueue worker("test", /*manual=*/true);
  int count = 0;
  std::function<void()> again = [&] {
    ++count;
    ASSERT_TRUE(worker.Submit(nullptr, again).ok());
  };
  ASSERT_TRUE(worker.Submit(nullptr, again).ok());
  EXPECT_EQ(worker.RunDone(), 1u);
  EXPECT_EQ(worker.RunDone(), 1u);
  EXPECT_EQ(count, 2);
  again = [] {};
}

TEST(JobQueueTest, FinishDoesWhatIsOwedAndTakesNothingMore) {
  for (const bool manual : {false, true}) {
    JobQueue worker("test", manual);
    int done = 0;
    ASSERT_TRUE(worker
                    .Submit([] {},
                            [&] {
                              ++done;
                              EXPECT_TRUE(worker.Submit([] {}, [&] { ++done; }).ok());
                            })
                    .ok());
    worker.Finish();
    EXPECT_EQ(done, 2);
    EXPECT_EQ(worker.Submit([] {}, nullptr).error().code, ESHUTDOWN);
  }
}

TEST(JobQueueTest, AChainWithoutEndIsCutAtTheEnd) {
  JobQueue worker("test", /*manual=*/false);
  int refused = 0;
  std::function<void()> again = [&] {
    if (!worker.Submit([] {}, again)) ++refused;
  };
  ASSERT_TRUE(worker.Submit([] {}, again).ok());
  worker.Finish();
  EXPECT_EQ(refused, 1);
  EXPECT_EQ(worker.Pending(), 0u);
}

// Sanitizers need memory of their own for each thread.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// In a process of its own, at first without room for another thread's stack.
void SubmitWithoutAThread() {
  rlimit limit{};
  getrlimit(RLIMIT_AS, &limit);
  const rlim_t before = limit.rlim_cur;
  rlim_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  limit.rlim_cur = (pages + 256) * static_cast<rlim_t>(sysconf(_SC_PAGESIZE));
  JobQueue worker("test", false);
  std::string story;
  setrlimit(RLIMIT_AS, &limit);
  const Status taken = worker.Submit([&] { story += "first"; }, nullptr);
  limit.rlim_cur = before;
  setrlimit(RLIMIT_AS, &limit);
  if (!taken) story = taken.error().message + "; ";
  (void)worker.Submit([&] { story += "second"; }, nullptr);
  worker.Finish();
  std::fputs(story.c_str(), stderr);
  std::_Exit(taken ? 1 : 0);
}

// Before the others (by its name): their threads would leave stacks to use again.
TEST(WorkerDeathTest, WithoutAThreadNothingIsTaken) {
  EXPECT_EXIT(SubmitWithoutAThread(), testing::ExitedWithCode(0),
              "^cannot start test; raise TasksMax=.*; second$");
}
#endif

TEST(JobQueueTest, JobsAreBounded) {
  JobQueue worker("test", /*manual=*/true);
  for (size_t i = 0; i < JobQueue::kMaxJobs; ++i) ASSERT_TRUE(worker.Submit(nullptr, [] {}).ok());
  EXPECT_EQ(worker.Submit(nullptr, [] {}).error().code, EAGAIN);
  EXPECT_EQ(worker.RunDone(), JobQueue::kMaxJobs);
  EXPECT_TRUE(worker.Submit(nullptr, [] {}).ok());
}

}  // namespace
}  // namespace ppc
