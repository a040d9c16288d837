// SPDX-License-Identifier: Apache-2.0
// ppc-event-cost: gives the runtime and MAIO so many PROGRESS events of services whose models are
// all in the cache already.  bench/events/measure counts the instructions of two runs; what they
// differ by is the cost of the events alone. Threads: one of work (the watchdog has one more).
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include "daemon/exec/runtime.h"
#include "daemon/policy/plugin.h"
#include "policies/maio/template/template.h"
#include "sim/replay/replay_backend.h"
#include "tools/model/common/options.h"

namespace {

using namespace ppc;

constexpr char kUsage[] =
    "usage: ppc-event-cost --policy PATH --events N [--services S] [--workers W] [--model-mb M] "
    "[--dir DIR]\n"
    "Handles N events of S services (default 1) with W workers each (default 4), which read "
    "cached\n"
    "models of M MiB together (default 4096).  DIR (default /tmp/ppc-event-cost) is made and "
    "removed.\n";
constexpr uint64_t kMiB = 1 << 20;
constexpr int kFirstPid = 100;

struct Load {
  uint64_t events = 0;
  uint64_t services = 0;
  uint64_t workers = 0;  // of each service
  uint64_t share = 0;    // bytes that one of them reads

  uint64_t ModelBytes() const { return share * workers; }
};

std::string IdOf(uint64_t service) { return "service-" + std::to_string(service); }
std::string ModelOf(uint64_t service) { return "model-" + std::to_string(service); }

// Each worker reads its own part of the file, in order.
void StoreTemplate(const std::string& directory, const Load& load, uint64_t service) {
  maio::Template t;
  t.service_id = IdOf(service);
  t.flags = maio::kComplete | maio::kTraced;
  t.files.push_back({ModelOf(service), load.ModelBytes(), 0, maio::FileKind::kSafetensors, {}});
  const uint64_t pages = load.share / maio::kPage;
  for (uint32_t w = 0; w < load.workers; ++w) {
    maio::TemplateGroup group;
    group.id = w;
    group.extents = {{0, w * pages, pages}};
    t.groups.push_back(std::move(group));
  }
  std::string error;
  if (maio::Store(directory, t, &error) != 0) throw std::runtime_error(error);
}

// What the runtime looks for of each process.
void FakeProcess(const std::string& directory, int pid, uint64_t service, uint64_t worker) {
  const std::string proc = directory + "/proc/" + std::to_string(pid);
  std::filesystem::create_directories(proc);
  std::ofstream(proc + "/status") << "Name:\tworker\nUid:\t0\t0\t0\t0\n";
  std::ofstream(proc + "/environ")
      << "PPC_SERVICE_ID=" << IdOf(service) << '\0' << "PPC_WORKER=" << worker << '\0';
}

void Settle(Runtime* runtime) {
  for (int quiet = 0; quiet < 3;) {
    const uint64_t before = runtime->loader().Stats().loaded;
    (void)runtime->executor().RunOnce();
    runtime->loader().RunUntilIdle();
    quiet = runtime->loader().Stats().loaded == before ? quiet + 1 : 0;
  }
}

Status StartService(Runtime* runtime, const Load& load, uint64_t service) {
  const Result<Json> reply = runtime->Control(
      Json{{"op", "service_start"}, {"service_id", IdOf(service)}, {"workers", load.workers}});
  return reply ? Ok() : Status(reply.error());
}

Status CheckAllFollow(Runtime* runtime, const Load& load) {
  const Result<Json> told = runtime->Control(Json{{"op", "status"}});
  if (!told) return told.error();
  uint64_t following = 0;
  for (const Json& service : told->at("services"))
    following += service.value("mode", "") == "use" ? 1 : 0;
  if (following != load.services) return Error{EINVAL, "the templates are not used"};
  return Ok();
}

// Event i: the services, and the workers of each, take turns.
Event EventOf(const Load& load, uint64_t i, uint64_t now_ns) {
  const uint64_t service = i % load.services;
  const uint64_t worker = i / load.services % load.workers;
  const uint64_t step = i / load.services / load.workers;
  const int pid = kFirstPid + static_cast<int>(service * load.workers + worker);
  return Event{.file = 1 + service,
               .offset = worker * load.share + step * kMiB % load.share,
               .length = kPageBytes,
               .time_ns = now_ns - 8 + i % 8,
               .start_ns = 1,
               .tgid = pid,
               .tid = pid,
               .kind = EventKind::kProgress};
}

// What bench/events/measure counts, by this name: a turn of the events' thread.
[[gnu::noinline]] void CountedTurn(Runtime* runtime) { (void)runtime->executor().RunOnce(); }

Status Measure(const std::string& policy, const std::string& directory, const Load& load) {
  Result<std::unique_ptr<Plugin>> plugin = Plugin::Open(policy, {.allow_any_owner = true});
  if (!plugin) return plugin.error();
  ReplayBackend backend({.loads_take_time = false});
  for (uint64_t s = 0; s < load.services; ++s) {
    StoreTemplate(directory, load, s);
    for (uint64_t w = 0; w < load.workers; ++w)
      FakeProcess(directory, kFirstPid + static_cast<int>(s * load.workers + w), s, w);
    backend.AddFile(1 + s, ModelOf(s), load.ModelBytes());
  }
  RuntimeConfig config;
  config.mount = "/models";
  config.policy_name = "maio";
  config.manual = true;
  config.roots = SysRoots{directory, directory};
  config.options.template_dir = directory;
  config.topology.nodes.push_back(NumaNode{0, {}});
  config.memory = [&](const std::shared_ptr<const Cgroup>&) {
    return std::shared_ptr<MemorySource>(&backend, [](MemorySource*) {});
  };
  Runtime runtime(&backend, (*plugin)->table(), std::move(config));
  if (const Status started = runtime.Start(); !started) return started.error();
  for (uint64_t s = 0; s < load.services; ++s) {
    if (const Status started = StartService(&runtime, load, s); !started) return started;
  }
  Settle(&runtime);
  if (const Status follow = CheckAllFollow(&runtime, load); !follow) return follow;
  uint64_t now_ns = backend.NowNs();
  for (uint64_t i = 0; i < load.events; ++i) {
    backend.Push(EventOf(load, i, now_ns));
    // As they come: a few at a time.
    if (i % 8 != 7) continue;
    backend.AdvanceClock(1000 * 1000);
    CountedTurn(&runtime);
    runtime.loader().RunUntilIdle();
    now_ns = backend.NowNs();
  }
  const Json status = runtime.StatusJson();
  std::printf("%s\n", DumpJson({{"events", status["events"]["events"]},
                                {"progress", status["events"]["progress"]},
                                {"strangers", status["events"]["strangers"]},
                                {"loaded", status["loader"]["loaded"]},
                                {"coverage_percent", status["stats"]["coverage_percent"]}})
                          .c_str());
  return Ok();
}

}  // namespace

int main(int argc, char** argv) {
  using namespace ppc::bench;
  Result<Options> options = Options::Parse(
      argc, argv, {"policy", "events", "services", "workers", "model-mb", "dir"}, {"help"});
  if (!options.ok()) return Fail("ppc-event-cost", options.error());
  const Result<uint64_t> events = options->Number("events", 0);
  const Result<uint64_t> services = options->Number("services", 1);
  const Result<uint64_t> workers = options->Number("workers", 4);
  const Result<uint64_t> model = options->Number("model-mb", 4096);
  const bool is_good = events.ok() && services.ok() && workers.ok() && model.ok() &&
                       *services != 0 && *workers != 0 && *model >= *services * *workers &&
                       !options->Text("policy", "").empty();
  if (options->Has("help") || !is_good) {
    std::fputs(kUsage, options->Has("help") ? stdout : stderr);
    return options->Has("help") ? 0 : 2;
  }
  const std::string directory = options->Text("dir", "/tmp/ppc-event-cost");
  const Load load{*events, *services, *workers, *model / *services / *workers * kMiB};
  try {
    std::filesystem::create_directories(directory);
    const Status done = Measure(options->Text("policy", ""), directory, load);
    std::filesystem::remove_all(directory);
    if (!done.ok()) return Fail("ppc-event-cost", done.error());
  } catch (const std::exception& e) {
    std::fprintf(stderr, "ppc-event-cost: %s\n", e.what());
    return 1;
  }
  return 0;
}
