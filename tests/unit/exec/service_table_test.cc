// SPDX-License-Identifier: Apache-2.0
#include "daemon/exec/service_table.h"

#include <gtest/gtest.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "daemon/base/unique_fd.h"
#include "sim/replay/replay_backend.h"
#include "tests/unit/has.h"
#include "tests/unit/temp_tree.h"

namespace ppc {
namespace {

class ServiceTableTest : public testing::Test {
 protected:
  ServiceTableTest() : roots_{tree_.Root(), tree_.Root()} {
    for (const char* group : {"/one", "/two", "/one/inner"}) {
      tree_.Write(std::string("/sys/fs/cgroup") + group + "/memory.max", "1000\n");
      tree_.Write(std::string("/sys/fs/cgroup") + group + "/memory.current", "10\n");
    }
    services_ = std::make_unique<ServiceTable>(&backend_, &topology_, roots_, MemoryIs(&backend_));
  }
  Service* Start(const Json& message) {
    const Result<Service*> started = services_->Start(message);
    EXPECT_TRUE(started.ok()) << (started.ok() ? "" : started.error().message);
    return started.ok() ? *started : nullptr;
  }
  // The service that a process belongs to.
  std::string IdOf(int pid, uint64_t start_ns, uint64_t cgroup_id) {
    return services_->Of(*services_->ReaderOf(pid, start_ns, cgroup_id))->id;
  }
  int XpuOf(int pid, uint64_t start_ns = 1) {
    return services_->ReaderOf(pid, start_ns, 0)->xpu.xpu;
  }
  Status Bind(const std::string& id, int pid, int worker) {
    const Result<uint64_t> start = services_->PrepareBinding(id, pid, worker);
    if (!start) return start.error();
    services_->Bind(id, pid, *start);
    return Ok();
  }
  // What looks at memory and its end wait in a list.
  static void LookElsewhere(ServiceTable* services, std::vector<std::function<void()>>* list) {
    services->Use(
        [list](const std::function<void()>& work, const std::function<void()>& done) {
          list->insert(list->end(), {work, done});
          return true;
        },
        nullptr, nullptr);
  }
  static ServiceTable::MemoryFactory MemoryIs(MemorySource* source) {
    return [source](const std::shared_ptr<const Cgroup>&) {
      return std::shared_ptr<MemorySource>(source, [](MemorySource*) {});
    };
  }
  void InCgroup(int pid, const std::string& group) {
    tree_.Write("/proc/" + std::to_string(pid) + "/cgroup", "0::" + group + "\n");
  }
  TempTree tree_;
  SysRoots roots_;
  ReplayBackend backend_{{}};
  Topology topology_;
  std::unique_ptr<ServiceTable> services_;
};

TEST_F(ServiceTableTest, WithoutServicesTheMountIsOne) {
  EXPECT_EQ(services_->Get(0)->id, "");
  EXPECT_EQ(services_->Get(7)->id, "");
  EXPECT_EQ(IdOf(5, 1, 1), "");
  EXPECT_EQ(services_->Active().size(), 1u);
  EXPECT_EQ(XpuOf(5), -1);
}

// Each start of a service asks where all are: /proc is not read again for the others.
TEST_F(ServiceTableTest, WhereAProcessIsIsReadWhenItIsTold) {
  tree_.Write("/proc/7/stat", "7 (w) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 7 0\n");
  InCgroup(7, "/pod/one");
  ASSERT_NE(Start({{"service_id", "a"}, {"pid", 7}}), nullptr);
  InCgroup(7, "/elsewhere");
  EXPECT_EQ(services_->Cgroups(), std::vector<std::string>{"/pod/one"});
}

TEST_F(ServiceTableTest, NumbersAreGivenAndReused) {
  EXPECT_EQ(Start({{"service_id", "a"}})->number, 0u);
  EXPECT_EQ(Start({{"service_id", "b"}})->number, 1u);
  EXPECT_EQ(Start({{"service_id", "a"}})->number, 0u);
  services_->Stop("a");
  EXPECT_EQ(services_->Find("a"), nullptr);
  EXPECT_EQ(Start({{"service_id", "c"}})->number, 0u);
  EXPECT_EQ(services_->Started(), 2u);
}

TEST_F(ServiceTableTest, ProcessesBelongByCgroup) {
  Service* one = Start({{"service_id", "a"}, {"cgroup", "/one"}});
  Service* two = Start({{"service_id", "b"}, {"cgroup", "/two"}});
  EXPECT_NE(ChargeOf(one->payer), 0u);
  EXPECT_NE(ChargeOf(one->payer), ChargeOf(two->payer));
  InCgroup(11, "/one/deeper");
  InCgroup(12, "/two");
  InCgroup(13, "/elsewhere");
  EXPECT_EQ(IdOf(11, 1, 0), "a");
  EXPECT_EQ(IdOf(12, 1, 0), "b");
  EXPECT_EQ(IdOf(13, 1, 0), "");
  EXPECT_EQ(IdOf(14, 1, two->cgroup->id()), "b");
  // The most specific one wins, also for processes seen before.
  (void)Start({{"service_id", "c"}, {"cgroup", "/one/inner"}});
  InCgroup(15, "/one/inner/x");
  EXPECT_EQ(IdOf(15, 1, 0), "c");
}

// Events carry the number of a cgroup2; a directory of v1 may have the same by chance.
TEST_F(ServiceTableTest, AV1CgroupIsNotKnownByTheEventsNumber) {
  tree_.Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "1000\n");
  for (const char* group : {"/one", "/two"}) {
    tree_.Write(std::string("/sys/fs/cgroup/memory") + group + "/memory.limit_in_bytes", "1000\n");
  }
  const Service* one = Start({{"service_id", "a"}, {"cgroup", "/one"}});
  (void)Start({{"service_id", "b"}, {"cgroup", "/two"}});
  tree_.Write("/proc/21/cgroup", "4:memory:/two\n0::/x\n");
  EXPECT_EQ(IdOf(21, 1, one->cgroup->id()), "b");
}

// Counts the handles that are out.
class CountingBackend : public ReplayBackend {
 public:
  CountingBackend() : ReplayBackend({}) {}
  Result<uint32_t> Charge(int fd) override {
    ++handles;
    return ReplayBackend::Charge(fd);
  }
  void Uncharge(uint32_t) override { --handles; }
  int handles = 0;
};

TEST_F(ServiceTableTest, ACgroupHasOneHandleWhileItIsNeeded) {
  CountingBackend backend;
  ServiceTable services(&backend, &topology_, roots_, MemoryIs(&backend));
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(services.Start({{"service_id", "a"}, {"cgroup", "/one"}}).ok());
    ASSERT_TRUE(services.Start({{"service_id", "b"}, {"cgroup", "/one"}}).ok());
    EXPECT_EQ(backend.handles, 1);
    services.Stop("a");
    EXPECT_EQ(backend.handles, 1);
    const std::shared_ptr<Payer> under_way = services.Find("b")->payer;
    services.Stop("b");
    EXPECT_EQ(backend.handles, 1) << "a load still pays by it";
  }
  EXPECT_EQ(backend.handles, 0);
}

// As a runner by itself does: its one service has nothing to tell strangers by.
TEST_F(ServiceTableTest, AServiceOfWhichNothingIsToldOwnsEverybody) {
  (void)Start({{"service_id", "a"}});
  EXPECT_EQ(IdOf(99, 1, 0), "a");
  (void)Start({{"service_id", "b"}, {"cgroup", "/one"}});
  InCgroup(98, "/one");
  EXPECT_EQ(IdOf(98, 1, 0), "b");
}

// A process of a service's cgroup is a stranger where only the service's process was told.
TEST_F(ServiceTableTest, WhoDescendsFromTheServicesProcessBelongsToIt) {
  const auto process = [&](int pid, int parent) {
    tree_.WriteStat(pid, parent);
    InCgroup(pid, "/one");
  };
  process(50, 1);
  process(51, 50);
  process(52, 51);
  process(60, 1);
  (void)Start({{"service_id", "a"}, {"cgroup", "/one"}, {"by_cgroup", false}, {"pid", 50}});
  EXPECT_EQ(IdOf(50, 1, 0), "a");
  EXPECT_EQ(IdOf(52, 1, 0), "a");
  EXPECT_EQ(IdOf(60, 1, 0), "");
  EXPECT_TRUE(services_->HasStarted());
  // A service within a service: the nearest.
  (void)Start({{"service_id", "b"}, {"cgroup", "/one"}, {"by_cgroup", false}, {"pid", 51}});
  EXPECT_EQ(IdOf(52, 1, 0), "b");
  EXPECT_EQ(IdOf(50, 1, 0), "a");
  EXPECT_EQ(services_->Start({{"service_id", "c"}, {"pid", 77}}).error().code, ESRCH);
}

TEST_F(ServiceTableTest, WhoSaysSoBelongsToAService) {
  (void)Start({{"service_id", "a"}, {"cgroup", "/one"}});
  (void)Start({{"service_id", "b"},
               {"cgroup", "/two"},
               {"owner", {{"cgroup", "/own"}, {"uid", 7}, {"network", "net:[3]"}}}});
  const auto named = [this](int pid, const std::string& group, int uid) {
    const std::string base = "/proc/" + std::to_string(pid);
    const std::string user = std::to_string(uid);
    InCgroup(pid, group);
    tree_.Write(base + "/environ", std::string("X=1\0PPC_SERVICE_ID=b\0", 21));
    tree_.Write(base + "/status",
                "Name:\tw\nUid:\t" + user + "\t" + user + "\t" + user + "\t" + user + "\n");
    return IdOf(pid, 1, 0);
  };
  EXPECT_EQ(named(70, "/own/engine", 8), "b");
  EXPECT_EQ(named(72, "/elsewhere", 7), "b");
  EXPECT_EQ(named(73, "/elsewhere", 8), "") << "another tenant, who has guessed the ID";
  EXPECT_EQ(named(74, "/own2", 8), "");
  EXPECT_EQ(named(75, "/one", 8), "a") << "what it says counts for nothing";
  // In containers without a user namespace every process is user 0.
  const auto in_container = [&](int pid, const std::string& network) {
    const std::string base = "/proc/" + std::to_string(pid);
    tree_.Link(base + "/ns/net", network);
    InCgroup(pid, "/pods/" + std::to_string(pid));
    tree_.Write(base + "/environ", std::string("PPC_SERVICE_ID=b\0", 17));
    tree_.Write(base + "/status",
                "Name:\tw\nUid:\t7\t7\t7\t7\nNSpid:\t" + std::to_string(pid) + "\t1\nNSpgid:\t1\n");
    return IdOf(pid, 1, 0);
  };
  tree_.Link("/proc/1/ns/net", "net:[1]");
  EXPECT_EQ(in_container(76, "net:[2]"), "") << "the same number, another tenant";
  EXPECT_EQ(in_container(77, "net:[1]"), "") << "the machine's own network is everybody's";
  EXPECT_EQ(in_container(78, "net:[3]"), "b") << "another container of the owner's pod";
  InCgroup(71, "/one");
  tree_.Write("/proc/71/environ", "PPC_SERVICE_ID=nobody");
  EXPECT_EQ(IdOf(71, 1, 0), "a");
}

// A process that hangs keeps its environment back.
TEST_F(ServiceTableTest, WhereThereIsNoChoiceTheEnvironmentIsNotRead) {
  (void)Start({{"service_id", "a"}, {"cgroup", "/one"}, {"owner", {{"cgroup", "/one"}}}});
  (void)Start({{"service_id", "b"}, {"cgroup", "/two"}, {"owner", {{"cgroup", "/two"}}}});
  const auto reads = [this](int pid, const std::string& group, const std::string& id) {
    const std::string base = "/proc/" + std::to_string(pid);
    InCgroup(pid, group);
    tree_.Write(base + "/environ", "");
    tree_.Write(base + "/status", "Name:\tw\nUid:\t0\t0\t0\t0\nNSpid:\t9\t1\n");
    const UniqueFd watch(inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
    EXPECT_GE(inotify_add_watch(watch.Get(), tree_.Path(base + "/environ").c_str(), IN_OPEN), 0);
    EXPECT_EQ(IdOf(pid, 1, 0), id);
    alignas(inotify_event) char event[4096];
    return read(watch.Get(), event, sizeof(event)) > 0;
  };
  EXPECT_FALSE(reads(81, "/two", "b"));
  EXPECT_FALSE(reads(82, "/stranger", ""));
  (void)Start({{"service_id", "c"}, {"owner", {{"cgroup", "/two"}}}});
  EXPECT_TRUE(reads(83, "/two", "b"));
}

TEST_F(ServiceTableTest, WorkersGetTheServicesXpus) {
  tree_.Write("/proc/21/environ", "PPC_WORKER=1");
  tree_.Write("/proc/22/environ", "PPC_WORKER=0");
  (void)Start({{"service_id", "a"}, {"xpus", {3, 1}}, {"workers", 2}});
  EXPECT_EQ(XpuOf(21), 1);
  EXPECT_EQ(XpuOf(22), 3);
  services_->Stop("a");
  (void)Start({{"service_id", "b"}, {"workers", 2}});
  EXPECT_EQ(XpuOf(21), 1);
}

TEST_F(ServiceTableTest, ExplainsAndBindsProcesses) {
  topology_.nodes = {NumaNode{0, {0}}, NumaNode{1, {1}}};
  topology_.xpus.resize(2);
  topology_.xpus[1].bdf = "0000:02:00.0";
  topology_.xpus[1].node = 1;
  tree_.WriteStat(31);
  tree_.Write("/proc/31/environ", "RANK=1");
  (void)Start({{"service_id", "a"}, {"xpus", {0, 1}}});
  Json told = Value(services_->ExplainProcess(31));
  EXPECT_EQ(told["service_id"], "a");
  EXPECT_EQ(told["source"], "RANK");
  EXPECT_EQ(told["xpu"], 1);
  EXPECT_EQ(told["bdf"], "0000:02:00.0");
  EXPECT_EQ(told["node"], 1);
  EXPECT_EQ(told["decided"], false);
  int winners = 0;
  for (const Json& provider : told["providers"]) winners += provider["wins"] == true ? 1 : 0;
  EXPECT_EQ(winners, 1);
  ASSERT_TRUE(Bind("a", 31, 0).ok());
  EXPECT_EQ((*services_->ExplainProcess(31))["source"], "told");
  EXPECT_EQ((*services_->ExplainProcess(31))["decided"], true);
  EXPECT_EQ(XpuOf(31, 70000000), 0);
  (void)Start({{"service_id", "c"}, {"cgroup", "/one"}, {"xpus", {1}}});
  InCgroup(31, "/two");
  ASSERT_TRUE(Bind("c", 31, 0).ok());
  EXPECT_EQ(IdOf(31, 70000001, 0), "c");
  EXPECT_EQ(services_->ExplainProcess(32).error().code, ESRCH);
  EXPECT_EQ(Bind("a", 32, 0).error().code, ESRCH);
  EXPECT_EQ(Bind("b", 31, 0).error().code, ENOENT);
  EXPECT_EQ(Bind("a", 31, -1).error().code, EINVAL);
}

TEST_F(ServiceTableTest, WrongStartsChangeNothing) {
  const Json kWrong[] = {{{"x", 1}},
                         {{"service_id", 5}},
                         {{"service_id", "a"}, {"cgroup", "/absent"}},
                         {{"service_id", "a"}, {"xpus", "0,1"}},
                         {{"service_id", "a"}, {"xpus", {-1}}},
                         {{"service_id", "a"}, {"workers", 1 << 20}}};
  for (const Json& message : kWrong) EXPECT_FALSE(services_->Start(message).ok()) << message;
  EXPECT_EQ(services_->Started(), 0u);
}

TEST_F(ServiceTableTest, XpusThatAreNotThereAreRefused) {
  EXPECT_TRUE(services_->Start({{"service_id", "a"}, {"xpus", {5}}}).ok()) << "none is known";
  topology_.xpus.resize(2);
  EXPECT_TRUE(services_->Start({{"service_id", "a"}, {"xpus", {0, 1}}}).ok());
  const auto refused = services_->Start({{"service_id", "b"}, {"xpus", {1, 2}}});
  ASSERT_EQ(refused.error().code, EINVAL);
  EXPECT_EQ(refused.error().message,
            "there is no XPU 2 here, only 0 to 1; `ppcctl xpus` lists them");
  EXPECT_TRUE(services_->Start({{"service_id", "b"}, {"workers", 4}}).ok());
  EXPECT_TRUE(services_->Start({{"service_id", "b"}, {"xpus", {2}}, {"resumed", true}}).ok());
}

// Where a look takes long, its thread has other things to do, too: answering for one.
TEST_F(ServiceTableTest, LooksAtMemoryLeaveTimeForOthers) {
  constexpr uint64_t kMs = 1'000'000;
  struct SlowMemory : MemorySource {
    explicit SlowMemory(ReplayBackend* backend) : clock(backend) {}
    MemoryReading Read(bool) override {
      ++looks;
      clock->AdvanceClock(took_ms * kMs);
      return {};
    }
    ReplayBackend* const clock;
    uint64_t looks = 0;
    uint64_t took_ms = 0;
  };
  const auto memory = std::make_unique<SlowMemory>(&backend_);
  ServiceTable services(&backend_, &topology_, roots_, MemoryIs(memory.get()));
  std::vector<std::function<void()>> elsewhere;
  LookElsewhere(&services, &elsewhere);
  const auto looks_in_a_second = [&](uint64_t took_ms) {
    memory->took_ms = took_ms;
    memory->looks = 0;
    const uint64_t end = backend_.NowNs() + 1000 * kMs;
    while (backend_.NowNs() < end) {
      (void)services.Memory(services.Get(0), 0);
      for (const auto& step : std::exchange(elsewhere, {})) step();
      backend_.AdvanceClock(kMs);
    }
    return memory->looks;
  };
  EXPECT_GE(looks_in_a_second(0), 190u);
  (void)looks_in_a_second(50);
  EXPECT_LE(looks_in_a_second(50), 6u);
}

// While a look is under way, and until the next one.
TEST_F(ServiceTableTest, WhatWasDroppedSinceALookIsNotCountedAnyMore) {
  struct FixedMemory : MemorySource {
    MemoryReading Read(bool) override {
      return {.limit = 200, .used = used, .cache = 80, .threshold = 100};
    }
    uint64_t used = 150;
  };
  const auto memory = std::make_unique<FixedMemory>();
  ServiceTable services(&backend_, &topology_, roots_, MemoryIs(memory.get()));
  std::vector<std::function<void()>> elsewhere;
  LookElsewhere(&services, &elsewhere);
  Service* const service = services.Get(0);
  const auto memory_now = [&] {
    backend_.AdvanceClock(10'000'000);
    return services.Memory(service, 0);
  };
  EXPECT_EQ(memory_now().memory.used, 150u);
  const auto look = std::exchange(elsewhere, {});
  look.front()();  // has read memory
  service->payer->budget->NoteDropped(60);
  EXPECT_EQ(memory_now().memory.used, 90u);
  EXPECT_FALSE(services.IsAbove(service));
  look.back()();
  EXPECT_EQ(memory_now().memory.used, 90u);
  EXPECT_EQ(memory_now().memory.cache, 20u);
  EXPECT_EQ(memory_now().room, 10u);
  // This one finds it gone.
  memory->used = 95;
  for (const auto& step : std::exchange(elsewhere, {})) step();
  EXPECT_EQ(memory_now().memory.used, 95u);
  service->payer->budget->NoteDropped(1000);
  EXPECT_EQ(memory_now().memory.used, 0u);
}

TEST_F(ServiceTableTest, ChargingThatIsNotPossibleIsNoted) {
  ReplayBackend without(ReplayOptions{.caps = {}});
  ServiceTable services(&without, &topology_, roots_, MemoryIs(&without));
  const Result<Service*> started = services.Start({{"service_id", "a"}, {"cgroup", "/one"}});
  ASSERT_TRUE(started.ok());
  EXPECT_EQ(ChargeOf((*started)->payer), 0u);
  EXPECT_NE((*started)->note, "");
}

}  // namespace
}  // namespace ppc
