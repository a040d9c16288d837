// SPDX-License-Identifier: Apache-2.0
#include "bench/sim/experiment.h"

#include <stdlib.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <memory>
#include <utility>

#include "bench/common/slice.h"
#include "bench/sim/replay.h"
#include "bench/sim/runner.h"

namespace ppc::sim {
namespace {

constexpr char kServiceId[] = "simulated";
constexpr char kDirectory[] = "m";
constexpr uint64_t kLoaderBytes = 16 << 20;  // own memory of the service and of each worker
constexpr uint64_t kMarginBytes = 16 << 20;  // as the demo
constexpr uint64_t kMaxNs = 3'600'000'000'000;
constexpr uint64_t kSampleNs = 250'000'000;
constexpr double kHookS = 0.1;  // telling the daemon that a service starts

class TempDir {
 public:
  TempDir() {
    std::string name = (std::filesystem::temp_directory_path() / "ppc-sim-XXXXXX").string();
    if (mkdtemp(name.data()) != nullptr) path_ = name;
  }
  ~TempDir() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

struct RunResult {
  ServiceReport report;
  uint64_t zero_ns = 0;
  CacheStats cache;
  DiskStats disk;
  uint64_t model_bytes = 0;
  uint64_t unused = 0;   // read, never touched
  uint64_t needed = 0;   // touched by anybody
  uint64_t at_zero = 0;  // resident when the clock or, earlier, the policy started
  Json status;
  std::vector<Sample> series;
};

uint64_t LoaderBytes(const Scenario& s) { return kLoaderBytes * (1 + s.service.workers); }

// One start-up on a machine of its own; only the directory outlives it.
class Run {
 public:
  Run(const Scenario& scenario, uint64_t seed, const std::string& directory)
      : s_(scenario), seed_(seed), directory_(directory) {}

  Result<RunResult> Go();

 private:
  Status Build();
  Result<uint64_t> AddFiles(PageCache* cache);
  ServiceReport Serve(bool through_ppc);
  void Main();
  Status StartPolicy(std::unique_ptr<Runner>* runner);
  void Cat(uint32_t processes);
  void Warm(double share);
  void ReplaceShard();
  void SampleOften();
  void Count();
  std::vector<int8_t> Places() const;
  ServiceOptions ServiceOf() const;

  const Scenario& s_;
  const uint64_t seed_;
  const std::string directory_;
  std::unique_ptr<Scheduler> scheduler_ = std::make_unique<Scheduler>();
  std::unique_ptr<Disk> disk_;
  std::unique_ptr<PageCache> cache_;
  std::unique_ptr<Kernel> kernel_;
  ModelFiles model_;
  EventLog log_;
  std::vector<int> xpu_nodes_;
  RunResult result_;
  Status status_ = Ok();
  bool done_ = false;
};

ServiceOptions Run::ServiceOf() const {
  ServiceOptions service = s_.service;
  const double pure_s = static_cast<double>(model_.bytes) / s_.disk.bytes_per_s;
  service.init_s = s_.init_share * pure_s;
  service.device_bytes_per_s = s_.consumer * s_.disk.bytes_per_s / service.workers;
  service.nodes = s_.nodes;
  service.seed = seed_;
  return service;
}

// Returns the model's bytes.
Result<uint64_t> Run::AddFiles(PageCache* cache) {
  if (!s_.log.empty()) {
    Result<EventLog> log = ReadEventLog(s_.log);
    if (!log.ok()) return log.error();
    log_ = std::move(*log);
    LogService::AddFiles(cache, log_);
    model_ = ModelFiles{};
    for (const LoggedFile& file : log_.files) {
      model_.shards.push_back(file.path);
      model_.bytes += file.size;
    }
    return model_.bytes;
  }
  const Result<bench::ModelSpec> spec = bench::FindModel(s_.model);
  if (!spec.ok()) return spec.error();
  model_ = AddModel(cache, *spec, s_.scale, kDirectory);
  return model_.bytes;
}

Status Run::Build() {
  MemoryOptions memory;
  memory.nodes = s_.nodes;
  memory.other_bytes = LoaderBytes(s_);
  // The limit needs the model's size: a first cache only counts.
  PageCache counter(memory);
  Result<uint64_t> bytes = AddFiles(&counter);
  if (!bytes.ok()) return bytes.error();
  if (s_.limit_share > 0) {
    memory.limit_bytes = memory.other_bytes + kMarginBytes +
                         static_cast<uint64_t>(s_.limit_share * static_cast<double>(*bytes));
  }
  if (s_.node_share > 0) {
    memory.node_bytes = static_cast<uint64_t>(s_.node_share * static_cast<double>(*bytes));
  }
  cache_ = std::make_unique<PageCache>(memory);
  bytes = AddFiles(cache_.get());
  if (!bytes.ok()) return bytes.error();
  disk_ = std::make_unique<Disk>(scheduler_.get(), s_.disk);
  KernelOptions options;
  options.cpu = s_.cpu;
  options.read_ahead_bytes = s_.system.read_ahead_kb << 10;
  kernel_ = std::make_unique<Kernel>(scheduler_.get(), disk_.get(), cache_.get(), options);
  for (uint32_t i = 0; i < s_.service.workers; ++i) {
    xpu_nodes_.push_back(static_cast<int>(i % s_.nodes));
  }
  return Ok();
}

// Its header grew by a page: all tensors lie elsewhere.
void Run::ReplaceShard() {
  const auto shard = static_cast<size_t>(s_.replaced_shard) % model_.headers.size();
  bench::ShardHeader& header = model_.headers[shard];
  CacheFile* const old = cache_->FindPath(model_.shards[shard]);
  std::string head = old->head + std::string(kPage, ' ');
  for (int i = 0; i < 8; ++i) head[size_t(i)] = char((head.size() - 8) >> (8 * i) & 0xff);
  old->is_gone = true;
  header.data_offset += kPage;
  header.file_bytes += kPage;
  cache_->AddFile(model_.shards[shard], header.file_bytes, head)->mtime_ns = 2;
}

void Run::Warm(double share) {
  for (const std::string& path : model_.shards) {
    CacheFile* file = cache_->FindPath(path);
    const auto bytes = static_cast<uint64_t>(share * static_cast<double>(file->bytes));
    if (bytes > 0) kernel_->ReadQuietly(file, 0, bytes);
  }
}

// Reads all files as users do by hand, several at a time.
void Run::Cat(uint32_t processes) {
  constexpr uint64_t kCatBytes = 128 << 10;
  std::vector<std::string> files = model_.small;
  files.insert(files.end(), model_.shards.begin(), model_.shards.end());
  std::sort(files.begin(), files.end());
  size_t next = 0;
  uint32_t left = processes;
  Fiber* const self = scheduler_->Current();
  for (uint32_t i = 0; i < processes; ++i) {
    scheduler_->Spawn([&, i] {
      Process process{.pid = 900'000'000 + int(i), .slot = 15, .node = int(i % s_.nodes)};
      Thread thread{.process = &process, .tid = process.pid};
      while (next < files.size()) {
        OpenFile* open =
            kernel_->Open(&thread, cache_->FindPath(files[next++]), /*through_ppc=*/false, false);
        for (uint64_t at = 0; at < open->file->bytes; at += kCatBytes) {
          kernel_->Read(&thread, open, at, kCatBytes);
        }
        kernel_->Close(&thread, open);
      }
      kernel_->cpus().Settle(&thread);
      if (--left == 0) scheduler_->Wake(self);
    });
  }
  while (left > 0) scheduler_->Wait();
}

Status Run::StartPolicy(std::unique_ptr<Runner>* runner) {
  *runner = std::make_unique<Runner>(kernel_.get(), RunnerOptions{.policy = s_.system.policy,
                                                                  .config = s_.system.config,
                                                                  .directory = directory_,
                                                                  .nodes = s_.nodes,
                                                                  .cpus = s_.cpu.cpus,
                                                                  .xpu_nodes = xpu_nodes_});
  const Status started = (*runner)->Start();
  if (!started) return started;
  result_.zero_ns = scheduler_->NowNs();
  std::vector<int> xpus(s_.service.workers);
  for (size_t i = 0; i < xpus.size(); ++i) xpus[i] = static_cast<int>(i);
  const Result<Json> answer = (*runner)->Control(Json{{"op", "service_start"},
                                                      {"service_id", kServiceId},
                                                      {"workers", s_.service.workers},
                                                      {"xpus", xpus}});
  if (!answer && answer.error().code != ENOTSUP) return answer.error();
  if (s_.system.lead_s > 0) {
    scheduler_->Sleep(static_cast<uint64_t>(s_.system.lead_s * 1e9));
    result_.zero_ns = scheduler_->NowNs();
  } else {
    scheduler_->Sleep(static_cast<uint64_t>(kHookS * 1e9));
  }
  return Ok();
}

void Run::SampleOften() {
  const CacheStats& cache = cache_->stats();
  result_.series.push_back(Sample{static_cast<double>(scheduler_->NowNs() - result_.zero_ns) / 1e9,
                                  cache_->resident_bytes(), disk_->stats().bytes, cache.evicted,
                                  cache.reclaimed});
  if (!done_) scheduler_->At(scheduler_->NowNs() + kSampleNs, [this] { SampleOften(); });
}

std::vector<int8_t> Run::Places() const {
  std::vector<int8_t> places;
  for (size_t shard = 0; shard < model_.headers.size(); ++shard) {
    const CacheFile* file = cache_->FindPath(model_.shards[shard]);
    const std::vector<uint16_t> owners =
        bench::PageOwners(model_.headers[shard], s_.service.tp, kPage);
    places.resize(std::max<size_t>(places.size(), file->first + file->pages), -1);
    for (size_t i = 0; i < owners.size(); ++i) {
      if (owners[i] == 0 || owners[i] == bench::kSharedPage) continue;
      const uint32_t rank = owners[i] - 1u;
      // The worker that takes this slice today.
      uint32_t worker = rank;
      for (uint32_t w = 0; w < s_.service.ranks.size(); ++w) {
        if (s_.service.ranks[w] == rank) worker = w;
      }
      places[file->first + i] = static_cast<int8_t>(worker % s_.nodes);
    }
  }
  return places;
}

void Run::Count() {
  for (const CacheFile& file : cache_->files()) {
    for (uint32_t i = file.first; i < file.first + file.pages; ++i) {
      const Page& page = cache_->page(i);
      if (page.wanted) result_.needed += kPage;
      if (page.ever_read && !page.wanted) result_.unused += kPage;
    }
  }
}

ServiceReport Run::Serve(bool through_ppc) {
  const std::string proc = through_ppc ? directory_ : "";
  if (!s_.log.empty()) {
    return LogService(kernel_.get(), log_, s_.nodes, through_ppc, proc).Run();
  }
  return Service(kernel_.get(), &model_, ServiceOf(), through_ppc, proc).Run();
}

void Run::Main() {
  if (s_.warm_share > 0) Warm(s_.warm_share);
  if (s_.replaced_shard >= 0 && !model_.headers.empty()) ReplaceShard();
  if (s_.system.is_cached) Warm(1);
  cache_->ForgetHistory();
  cache_->SetPlaces(Places());
  const DiskStats before = disk_->stats();
  result_.zero_ns = scheduler_->NowNs();
  result_.at_zero = cache_->resident_bytes();
  SampleOften();
  std::unique_ptr<Runner> runner;
  if (s_.system.cat_processes > 0) Cat(s_.system.cat_processes);
  if (!s_.system.policy.empty()) {
    status_ = StartPolicy(&runner);
    if (!status_) return;
  }
  const bool through_ppc = runner != nullptr;
  result_.report = Serve(through_ppc);
  result_.cache = cache_->stats();
  result_.disk = {disk_->stats().requests - before.requests, disk_->stats().bytes - before.bytes};
  Count();
  if (!through_ppc) return;
  const Result<Json> answer =
      runner->Control(Json{{"op", "service_ready"}, {"service_id", kServiceId}});
  result_.status = runner->runtime().StatusJson();
  if (answer) result_.status["ready"] = *answer;
  runner->Stop();
}

Result<RunResult> Run::Go() {
  if (const Status built = Build(); !built) return built.error();
  result_.model_bytes = std::max<uint64_t>(model_.bytes, 1);
  scheduler_->Spawn([this] {
    Main();
    done_ = true;
  });
  const bool ended = scheduler_->RunUntil([this] { return done_; }, kMaxNs);
  if (!ended) {
    // Fibers in the midst of the runtime cannot be unwound: the machine stays as it is.
    (void)scheduler_.release();
    (void)kernel_.release();
    (void)disk_.release();
    (void)cache_.release();
    return Error{ETIMEDOUT, s_.name + ": the service is not ready after an hour"};
  }
  scheduler_.reset();  // unwinds what still waits, while the machine is there
  if (!status_) return status_.error();
  return std::move(result_);
}

// ------------------------------------------------------------------------ runs

// The same service without a policy, a limit or anything done before.
Scenario Plain(const Scenario& scenario) {
  Scenario plain = scenario;
  plain.system = System{};
  plain.warm_share = 0;
  plain.replaced_shard = -1;
  return plain;
}

Result<RunResult> Record(const Scenario& scenario, uint64_t seed, const std::string& directory) {
  Scenario record = Plain(scenario);
  record.limit_share = 0;
  record.node_share = 0;
  record.service.restart_worker = -1;
  record.service.own_prefetch_threads = 0;
  record.service.order = ShardOrder::kFile;
  record.service.ranks.clear();
  record.system.policy = scenario.system.policy;
  const Status read = ReadService(scenario.record, &record.service);
  if (!read) return read.error();
  return Run(record, seed + 1, directory).Go();
}

double Share(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

// Contract: rich = max(init + L0, S / b); with a limit init + max(L0, (S - M) / b), M being the
// cache that init can fill.  What a hook's lead lets in is told from it, a second pass over files
// that do not fit reads again what did not.
double Bound(const Scenario& s, const RunResult& run, const RunResult& cached) {
  const double b = s.disk.bytes_per_s;
  const double init = cached.report.init_s();
  const double load = cached.report.load_s();
  const auto need = static_cast<double>(run.needed - std::min(run.needed, run.at_zero));
  if (s.limit_share == 0) return std::max(init + load, need / b - s.system.lead_s);
  const double room = s.limit_share * static_cast<double>(run.model_bytes) + kMarginBytes;
  const double filled = std::min(room, (init + s.system.lead_s) * b);
  const double again =
      (s.service.passes - 1) * std::max(0.0, static_cast<double>(run.needed) - room);
  return init + std::max(load, (need + again - filled) / b);
}

void AddMetrics(const Scenario& s, const RunResult& run, std::map<std::string, double>* out) {
  auto& m = *out;
  const CacheStats& cache = run.cache;
  m["startup_s"] = static_cast<double>(run.report.ready_ns - run.zero_ns) / 1e9;
  m["load_s"] = run.report.load_s();
  m["disk_share"] = Share(run.disk.bytes, run.model_bytes);
  m["requests"] = static_cast<double>(run.disk.requests);
  m["reread_share"] = Share(cache.reread, run.needed);
  m["unused_share"] = Share(run.unused, run.needed);
  m["redundant_share"] = Share(cache.reread + run.unused, run.needed);
  m["refault_share"] = Share(cache.refaulted, cache.evicted);
  m["reclaimed_share"] = Share(cache.reclaimed, cache.read);
  m["limit_hits"] = static_cast<double>(cache.limit_hits);
  m["misplaced_share"] = Share(cache.misplaced, cache.exclusive);
  m["peak_share"] = Share(cache.peak, run.model_bytes);
  m["majflt"] = static_cast<double>(run.report.majflt);
  (void)s;
}

}  // namespace

Result<Outcome> RunScenario(const Scenario& scenario, uint64_t seed) {
  const TempDir directory;
  if (directory.path().empty()) return PosixError("make a temporary directory", errno);
  if (scenario.system.records_first) {
    const Result<RunResult> recorded = Record(scenario, seed, directory.path());
    if (!recorded) return recorded.error();
  }
  Result<RunResult> run = Run(scenario, seed, directory.path()).Go();
  if (!run) return run.error();
  Scenario cached_scenario = Plain(scenario);
  cached_scenario.system.is_cached = true;
  if (cached_scenario.service.mode == ReadMode::kDirect) {
    cached_scenario.service.mode = ReadMode::kRead;  // past the cache there is nothing cached
  }
  cached_scenario.limit_share = 0;
  cached_scenario.node_share = 0;
  const Result<RunResult> cached = Run(cached_scenario, seed, directory.path()).Go();
  if (!cached) return cached.error();
  Outcome outcome;
  AddMetrics(scenario, *run, &outcome.metrics);
  auto& metrics = outcome.metrics;
  metrics["cached_load_s"] = cached->report.load_s();
  metrics["bound_s"] = Bound(scenario, *run, *cached);
  metrics["bound_ratio"] = metrics["startup_s"] / metrics["bound_s"];
  const auto wants_native = [](const auto& e) { return e.first.starts_with("native_"); };
  if (std::any_of(scenario.expect.begin(), scenario.expect.end(), wants_native)) {
    Scenario native_scenario = Plain(scenario);
    native_scenario.warm_share = scenario.warm_share;
    const Result<RunResult> native = Run(native_scenario, seed, directory.path()).Go();
    if (!native) return native.error();
    metrics["native_load_ratio"] = metrics["load_s"] / native->report.load_s();
    metrics["native_startup_ratio"] =
        metrics["startup_s"] /
        (static_cast<double>(native->report.ready_ns - native->zero_ns) / 1e9);
  }
  outcome.series = std::move(run->series);
  outcome.policy_status = std::move(run->status);
  return outcome;
}

std::vector<Verdict> Judge(const Scenario& scenario, const Outcome& outcome) {
  std::vector<Verdict> verdicts;
  for (const auto& [metric, expected] : scenario.expect) {
    const auto got = outcome.metrics.find(metric);
    const double value = got == outcome.metrics.end() ? std::nan("") : got->second;
    verdicts.push_back({metric, value, expected, value >= expected.min && value <= expected.max});
  }
  return verdicts;
}

}  // namespace ppc::sim
