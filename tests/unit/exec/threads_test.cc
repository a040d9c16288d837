// SPDX-License-Identifier: Apache-2.0
// What the executor's thread does not wait for: /proc, names of files, memory, control messages.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <future>
#include <thread>

#include "daemon/base/clock.h"
#include "daemon/base/unique_fd.h"
#include "tests/unit/eventually.h"
#include "tests/unit/exec/executor_fixture.h"
#include "tests/unit/has.h"
#include "tests/unit/temp_tree.h"

namespace ppc {
namespace {

struct Seen {
  int pid;
  int service;
  uint64_t offset;
  bool operator==(const Seen&) const = default;
};

// Names of files wait until Open().
class DoorBackend : public ReplayBackend {
 public:
  DoorBackend() : ReplayBackend({.memory_limit = 100 * kMiB}) {}
  Result<FileInfo> Resolve(uint64_t file, std::string* path) override {
    if (file == slow_file) door_.get_future().wait();
    return ReplayBackend::Resolve(file, path);
  }
  void Open() { door_.set_value(); }
  uint64_t slow_file = 0;

 private:
  std::promise<void> door_;
};

class ThreadsTest : public testing::Test {
 protected:
  ThreadsTest() {
    signal(SIGPIPE, SIG_IGN);  // who reads a FIFO may close it at any time
    backend_.AddFile(1, "model/a", 256 * kMiB);
    backend_.AddFile(2, "model/b", 256 * kMiB);
    policy_.prefetch = [this](const miss_io& miss) {
      seen_.push_back({miss.pid, miss.service, miss.offset});
    };
    policy_.control = [this](const std::string& text) {
      asked_.push_back(text);
      return std::string(R"({"mode": "use"})");
    };
  }
  ~ThreadsTest() override { runtime_.reset(); }

  void Start(RuntimeConfig config = {}) {
    config.roots = SysRoots{tree_.Root(), tree_.Root()};
    runtime_ = MakeRuntime(&backend_, policy_, std::move(config), /*is_threaded=*/true);
    ASSERT_TRUE(runtime_->Start().ok());
  }
  template <typename Condition>
  void TurnUntil(Condition condition) {
    while (!condition()) {
      runtime_->executor().Pump();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  // Answered on the control queue's thread.
  Result<Json> Tell(const Json& message) {
    std::promise<Result<Json>> promise;
    std::future<Result<Json>> answer = promise.get_future();
    runtime_->Control(message, [&](Result<Json> given) { promise.set_value(std::move(given)); });
    TurnUntil(
        [&] { return answer.wait_for(std::chrono::seconds(0)) == std::future_status::ready; });
    return answer.get();
  }
  // A process that opens the FIFO reads the text, while action() lasts.
  template <typename Action>
  static void Answering(const std::string& fifo, const std::string& text, Action action) {
    std::atomic<bool> is_over = false;
    std::thread writer([&] {
      while (!is_over) {
        const UniqueFd fd(open(fifo.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK));
        if (fd.IsValid()) (void)!write(fd.Get(), text.data(), text.size());
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
    action();
    is_over = true;
    writer.join();
  }
  void IsOfService(int pid, const std::string& id) {
    tree_.Write("/proc/" + std::to_string(pid) + "/status", "Name:\tx\nUid:\t0\t0\t0\t0\n");
    tree_.Write("/proc/" + std::to_string(pid) + "/environ", "PPC_SERVICE_ID=" + id);
  }
  // A process of which each read of the environment hangs; where that lies.
  std::string Hangs(int pid, const std::string& group = "/") {
    const std::string base = "/proc/" + std::to_string(pid);
    tree_.WriteStat(pid);
    tree_.Write(base + "/status", "Name:\tw\nUid:\t0\t0\t0\t0\n");
    tree_.Write(base + "/cgroup", "0::" + group + "\n");
    const std::string environ = tree_.Path(base + "/environ");
    EXPECT_EQ(mkfifo(environ.c_str(), 0600), 0);
    return environ;
  }
  // Each may be named by any process of root.
  void StartTwo() {
    for (const char* const id : {"a", "b"}) {
      ASSERT_TRUE(Tell({{"op", "service_start"}, {"service_id", id}, {"workers", 1}}).ok());
    }
  }
  void Miss(int pid, uint64_t mib, uint64_t file = 1) {
    backend_.Push(MissEvent(file, mib * kMiB, kPageBytes, pid));
    runtime_->executor().Pump();
  }

  TempTree tree_;
  DoorBackend backend_;
  TestPolicy policy_;
  std::vector<Seen> seen_;
  std::vector<std::string> asked_;
  std::unique_ptr<Runtime> runtime_;
};

// A process that is being torn down, or whose memory is locked, keeps each reader of its
// /proc/PID/environ waiting.
TEST_F(ThreadsTest, AProcessThatIsSlowToLookUpKeepsNobodyElseWaiting) {
  IsOfService(11, "a");
  const std::string slow = Hangs(10);
  Start();
  StartTwo();
  Miss(11, 0);
  TurnUntil([&] { return seen_.size() == 1; });
  for (uint64_t mib = 1; mib < 5; ++mib) {
    Miss(10, mib);
    Miss(11, mib);
  }
  EXPECT_EQ(seen_.size(), 5u);
  for (const Seen& seen : seen_) EXPECT_EQ(seen.pid, 11);
  // Now it answers, more than once: the service, then the worker.
  Answering(slow, "PPC_SERVICE_ID=a", [this] { TurnUntil([&] { return seen_.size() == 9; }); });
  // Nothing of it is lost, and it is in its order.
  for (uint64_t mib = 1; mib < 5; ++mib) EXPECT_EQ(seen_[4 + mib], (Seen{10, 0, mib * kMiB}));
  EXPECT_EQ(runtime_->executor().Stats().strangers, 0u);
  EXPECT_GE(runtime_->executor().Stats().held, 4u);
}

// Its memory is locked while it waits for a server that is gone, say: each reader of
// /proc/PID/environ waits with it.
TEST_F(ThreadsTest, AProcessThatHangsHoldsUpNeitherMessagesNorTheEnd) {
  const std::string slow = Hangs(10);
  Start();
  StartTwo();
  Miss(10, 0);
  Executor& executor = runtime_->executor();
  // There is a reader, and it reads for as long as this is open.
  UniqueFd hangs;
  TurnUntil([&] {
    hangs.Reset(open(slow.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK));
    return hangs.IsValid();
  });
  // What reads the same is answered later, all else is not behind it.
  runtime_->Control({{"op", "explain_pid"}, {"pid", 10}}, [](const Result<Json>&) {});
  std::atomic<bool> has_status = false;
  runtime_->Do([&] { has_status = runtime_->StatusNow().contains("services"); }, nullptr);
  TurnUntil([&] { return has_status.load(); });
  std::atomic<bool> is_stopped = false;
  runtime_->Control({{"op", "service_stop"}, {"service_id", "a"}},
                    [&](const Result<Json>& answer) { is_stopped = answer.ok(); });
  while (!is_stopped) {
    backend_.AdvanceClock(100 * kMs);
    executor.RunOnce();
  }
  EXPECT_TRUE(seen_.empty());
  runtime_->Shutdown();
  EXPECT_TRUE(runtime_->IsStuck());
  // So that the test can end; a runner leaves without waiting.
  hangs.Reset();
  Answering(slow, "", [this] { runtime_.reset(); });
}

// However many processes of one tenant hang, and whatever is asked of others.
TEST_F(ThreadsTest, ATenantOfWhichManyProcessesHangKeepsNoOtherWaiting) {
  constexpr int kFirst = 20;
  constexpr int kHung = 70;
  std::vector<std::string> environs;
  std::vector<UniqueFd> hangs;
  for (int pid = kFirst; pid < kFirst + kHung; ++pid) {
    environs.push_back(Hangs(pid, "/pods/one/" + std::to_string(pid)));
    hangs.emplace_back(open(environs.back().c_str(), O_RDWR | O_CLOEXEC));
  }
  IsOfService(11, "b");
  Start();
  StartTwo();
  for (int pid = kFirst; pid < kFirst + kHung; ++pid) Miss(pid, 0);
  Miss(11, 1);
  EXPECT_TRUE(Eventually([&] {
    runtime_->executor().Pump();
    return !seen_.empty();
  }));
  EXPECT_EQ(seen_.empty() ? 0 : seen_[0].pid, 11);
  runtime_->Shutdown();
  for (const std::string& environ : environs) unlink(environ.c_str());  // it is read twice
  hangs.clear();
}

TEST_F(ThreadsTest, AFileThatIsSlowToNameKeepsOnlyItsReadersWaiting) {
  Start();
  backend_.slow_file = 2;
  Miss(11, 0);
  TurnUntil([&] { return seen_.size() == 1; });
  Miss(10, 0, 2);
  Miss(10, 1);
  Miss(11, 1);
  EXPECT_EQ(seen_.size(), 2u);
  backend_.Open();
  TurnUntil([&] { return seen_.size() == 4; });
  EXPECT_EQ(seen_[2], (Seen{10, -1, 0}));
  EXPECT_EQ(seen_[3], (Seen{10, -1, kMiB}));
}

// The two are asked for together.
TEST_F(ThreadsTest, AFileThatIsNamedDoesNotWaitForTheNext) {
  Start();
  backend_.slow_file = 2;
  backend_.Push(MissEvent(1, 0, kPageBytes, 10));
  backend_.Push(MissEvent(2, 0, kPageBytes, 10));
  TurnUntil([&] { return seen_.size() == 1; });
  EXPECT_EQ(seen_[0], (Seen{10, -1, 0}));
  backend_.Open();
  TurnUntil([&] { return seen_.size() == 2; });
}

TEST_F(ThreadsTest, AFileThatIsGoneHoldsNothing) {
  Start();
  Miss(10, 0, 99);
  Miss(10, 1);
  TurnUntil([&] { return seen_.size() == 1; });
  EXPECT_EQ(seen_[0].offset, kMiB);
  EXPECT_EQ(runtime_->executor().Stats().unresolved, 1u);
}

// What a file is called is renewed while the old name goes on being used.
TEST_F(ThreadsTest, AnOldNameServesUntilTheNewOneIsKnown) {
  std::vector<std::string> paths;
  policy_.prefetch = [&](const miss_io& miss) { paths.emplace_back(miss.path); };
  Start();
  Miss(10, 0, 2);
  TurnUntil([&] { return paths.size() == 1; });
  backend_.AddFile(2, "model/renamed", 256 * kMiB);
  backend_.AdvanceClock(3000 * kMs);
  backend_.slow_file = 2;
  Miss(10, 1, 2);
  EXPECT_EQ(paths.size(), 2u);
  EXPECT_EQ(paths.back(), "model/b");
  backend_.Open();
  uint64_t mib = 2;
  TurnUntil([&] {
    backend_.AdvanceClock(200 * kMs);
    Miss(10, mib++ % 200, 2);
    return paths.back() == "model/renamed";
  });
}

// A service's last reads come before its end, though its reader is not known yet.
TEST_F(ThreadsTest, AMessageComesAfterTheEventsBeforeIt) {
  IsOfService(11, "a");
  Start();
  ASSERT_TRUE(Tell({{"op", "service_start"}, {"service_id", "a"}, {"workers", 1}}).ok());
  size_t seen_at_stop = 0;
  policy_.control = [&](const std::string&) {
    seen_at_stop = seen_.size();
    return std::string("{}");
  };
  backend_.Push(MissEvent(1, 0, kPageBytes, 11));
  ASSERT_TRUE(Tell({{"op", "service_stop"}, {"service_id", "a"}}).ok());
  EXPECT_EQ(seen_at_stop, 1u);
  EXPECT_EQ(seen_.at(0), (Seen{11, 0, 0}));
}

TEST_F(ThreadsTest, MessagesAreAnsweredInFull) {
  IsOfService(11, "a");
  tree_.WriteStat(11);
  Start();
  const Json started =
      Value(Tell({{"op", "service_start"}, {"service_id", "a"}, {"xpus", {0, 1}}}));
  EXPECT_EQ(started["mode"], "use");
  EXPECT_EQ(started["service"], 0);
  EXPECT_TRUE(Has(asked_.at(0), "\"xpus\":[0,1]")) << asked_[0];
  EXPECT_TRUE(Tell({{"op", "bind_pid"}, {"service_id", "a"}, {"pid", 11}, {"worker", 1}}).ok());
  const Json told = Value(Tell({{"op", "explain_pid"}, {"pid", 11}}));
  EXPECT_EQ(told["service_id"], "a");
  EXPECT_EQ(told["source"], "told");
  const Json status = runtime_->StatusJson();
  EXPECT_EQ(status["services"][0]["service_id"], "a");
  EXPECT_EQ(Tell({{"op", "service_ready"}, {"service_id", "b"}}).error().code, ENOENT);
  EXPECT_EQ(Tell({{"x", 1}}).error().code, EINVAL);
  // A refused start leaves nothing, a start again takes its place away.
  policy_.control = [&](const std::string& text) {
    asked_.push_back(text);
    return std::string(R"({"error": "no"})");
  };
  EXPECT_EQ(Tell({{"op", "service_start"}, {"service_id", "a"}}).error().message, "no");
  TurnUntil([&] { return runtime_->services().Started() == 0; });
  EXPECT_TRUE(Has(asked_.back(), "service_stop"));
}

// Loader and evictor are counted now; the events' thread has answered before.
TEST_F(ThreadsTest, AStatusIsToldWhileAHookBlocks) {
  std::promise<void> is_in_hook;
  std::promise<void> door;
  policy_.control = [&](const std::string&) {
    is_in_hook.set_value();
    door.get_future().wait();
    return std::string("{}");
  };
  Start();
  std::atomic<bool> is_over = false;
  std::thread events([&] {
    runtime_->Control({{"op", "look"}}, [](const Result<Json>&) {});
    TurnUntil([&] { return is_over.load(); });
  });
  is_in_hook.get_future().wait();
  Json blocked = runtime_->StatusNow();
  EXPECT_EQ(blocked["waits_for"]["hook"], "ppc_control") << blocked;
  EXPECT_TRUE(blocked.contains("age_ms"));
  EXPECT_EQ(blocked["hooks"]["ppc_control"]["calls"], 0);
  EXPECT_EQ(blocked["loader"]["queued"], 0);
  door.set_value();
  EXPECT_TRUE(Eventually([&] {
    const Json status = runtime_->StatusNow();
    return status["hooks"]["ppc_control"]["calls"] == 1 && !status.contains("waits_for");
  }));
  is_over = true;
  events.join();
}

// The kernel takes long to tell of memory on a machine of many CPUs.
TEST_F(ThreadsTest, AStatusReadsTheMemoryOfAsManyServicesAsItHasTimeFor) {
  struct SlowMemory : MemorySource {
    MemoryReading Read(bool) override {
      const uint64_t until = MonotonicNs() + 25 * kNsPerMs;
      while (MonotonicNs() < until) {
      }
      return {.limit = 7};
    }
  };
  RuntimeConfig config;
  config.memory = [](const std::shared_ptr<const Cgroup>&) {
    return std::make_shared<SlowMemory>();
  };
  Start(std::move(config));
  StartTwo();
  backend_.AdvanceClock(100 * kMs);
  for (Service* const service : runtime_->services().Active()) {
    (void)runtime_->services().Memory(service, 0, /*with_cache=*/true);
    TurnUntil([&] { return service->looked_ns != 0; });
  }
  const Json services = runtime_->StatusJson()["services"];
  EXPECT_FALSE(services[0]["memory"].contains("age_ms")) << services;
  EXPECT_TRUE(services[1]["memory"].contains("age_ms")) << services;
  EXPECT_EQ(services[1]["memory"]["limit"], 7);
}

}  // namespace
}  // namespace ppc
