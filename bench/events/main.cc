// SPDX-License-Identifier: Apache-2.0
// ppc-event-cost: gives the runtime and MAIO so many PROGRESS events of a load that is all in the
// cache already.  bench/events/measure counts the instructions of two runs; what they differ by is
// the cost of the events alone.
// Threads: one of work (the watchdog has one more).
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include "bench/common/options.h"
#include "daemon/backend/replay/replay_backend.h"
#include "daemon/exec/runtime.h"
#include "daemon/policy/plugin.h"
#include "policies/maio/template/template.h"

namespace {

using namespace ppc;

constexpr char kUsage[] =
    "usage: ppc-event-cost --policy PATH --events N [--workers W] [--model-mb M] [--dir DIR]\n"
    "Handles N events of W workers (default 4) that read a cached model of M MiB (default 4096).\n"
    "DIR (default /tmp/ppc-event-cost) is made and removed.\n";
constexpr char kId[] = "0123456789abcdef";
constexpr uint64_t kMiB = 1 << 20;
constexpr int kFirstPid = 100;

// Each worker reads its own quarter (or so) of the file, in order.
void StoreTemplate(const std::string& directory, uint64_t bytes, uint32_t workers) {
  maio::Template t;
  t.service_id = kId;
  t.flags = maio::kComplete | maio::kTraced;
  t.files.push_back({"model", bytes, 0, maio::FileKind::kSafetensors, {}});
  const uint64_t pages = bytes / workers / maio::kPage;
  for (uint32_t w = 0; w < workers; ++w) {
    maio::TemplateGroup group;
    group.id = w;
    group.extents = {{0, w * pages, pages}};
    t.groups.push_back(std::move(group));
  }
  std::string error;
  if (maio::Store(directory, t, &error) != 0) throw std::runtime_error(error);
}

// What the runtime looks for of each process.
void FakeProcess(const std::string& directory, int pid, uint32_t worker) {
  const std::string proc = directory + "/proc/" + std::to_string(pid);
  std::filesystem::create_directories(proc);
  std::ofstream(proc + "/environ") << "PPC_WORKER=" << worker;
}

void Settle(Runtime* runtime) {
  for (int quiet = 0; quiet < 3;) {
    const uint64_t before = runtime->loader().Stats().loaded;
    (void)runtime->executor().RunOnce();
    runtime->loader().RunUntilIdle();
    quiet = runtime->loader().Stats().loaded == before ? quiet + 1 : 0;
  }
}

Status Measure(const std::string& policy, const std::string& directory, uint64_t events,
               uint32_t workers, uint64_t model_bytes) {
  Result<std::unique_ptr<Plugin>> plugin = Plugin::Open(policy, {.allow_any_owner = true});
  if (!plugin) return plugin.error();
  StoreTemplate(directory, model_bytes, workers);
  for (uint32_t w = 0; w < workers; ++w) FakeProcess(directory, kFirstPid + static_cast<int>(w), w);
  ReplayBackend backend({.loads_take_time = false});
  backend.AddFile(1, "model", model_bytes);
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
  const Result<Json> service =
      runtime.Control(Json{{"op", "service_start"}, {"service_id", kId}, {"workers", workers}});
  if (!service) return service.error();
  Settle(&runtime);
  const Result<Json> told = runtime.Control(Json{{"op", "status"}});
  if (!told) return told.error();
  if (told->at("services").at(0).value("mode", "") != "use")
    return Error{EINVAL, "the template is not used"};
  const uint64_t share = model_bytes / workers;
  uint64_t now_ns = backend.NowNs();
  for (uint64_t i = 0; i < events; ++i) {
    const uint64_t worker = i % workers;
    const int pid = kFirstPid + static_cast<int>(worker);
    backend.Push(Event{.file = 1,
                       .offset = worker * share + i / workers * kMiB % share,
                       .length = kPageBytes,
                       .time_ns = now_ns - 8 + i % 8,
                       .start_ns = 1,
                       .tgid = pid,
                       .tid = pid,
                       .kind = EventKind::kProgress});
    // As they come: a few at a time.
    if (i % 8 != 7) continue;
    backend.AdvanceClock(1000 * 1000);
    (void)runtime.executor().RunOnce();
    runtime.loader().RunUntilIdle();
    now_ns = backend.NowNs();
  }
  const Json status = runtime.StatusJson();
  std::printf("%s\n", DumpJson({{"events", status["events"]["events"]},
                                {"progress", status["events"]["progress"]},
                                {"loaded", status["loader"]["loaded"]},
                                {"coverage_percent", status["stats"]["coverage_percent"]}})
                          .c_str());
  return Ok();
}

}  // namespace

int main(int argc, char** argv) {
  using namespace ppc::bench;
  Result<Options> options =
      Options::Parse(argc, argv, {"policy", "events", "workers", "model-mb", "dir"}, {"help"});
  if (!options.ok()) return Fail("ppc-event-cost", options.error());
  const Result<uint64_t> events = options->Number("events", 0);
  const Result<uint64_t> workers = options->Number("workers", 4);
  const Result<uint64_t> model = options->Number("model-mb", 4096);
  if (options->Has("help") || !events.ok() || !workers.ok() || !model.ok() ||
      options->Text("policy", "").empty()) {
    std::fputs(kUsage, options->Has("help") ? stdout : stderr);
    return options->Has("help") ? 0 : 2;
  }
  const std::string directory = options->Text("dir", "/tmp/ppc-event-cost");
  try {
    std::filesystem::create_directories(directory);
    const Status done = Measure(options->Text("policy", ""), directory, *events,
                                static_cast<uint32_t>(*workers), *model * kMiB);
    std::filesystem::remove_all(directory);
    if (!done.ok()) return Fail("ppc-event-cost", done.error());
  } catch (const std::exception& e) {
    std::fprintf(stderr, "ppc-event-cost: %s\n", e.what());
    return 1;
  }
  return 0;
}
