// SPDX-License-Identifier: Apache-2.0
#include "sim/start_up.h"

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <utility>

#include "sim/replay.h"
#include "tools/model/common/slice.h"

namespace ppc::sim {
namespace {

constexpr uint64_t kLoaderBytes = 16 << 20;  // own memory of the service and of each worker
constexpr uint64_t kSampleNs = 250'000'000;

uint64_t LoaderBytes(const Scenario& s) {
  uint64_t bytes = kLoaderBytes * (1 + s.service.workers);
  for (const OtherService& other : s.others) bytes += kLoaderBytes * (1 + other.service.workers);
  return bytes;
}

}  // namespace

ServiceOptions StartUp::ServiceOf() const {
  return Complete(s_.service, model_, 0, s_.service_id, s_.consumer);
}

ServiceOptions StartUp::Complete(ServiceOptions service, const ModelFiles& model, uint32_t number,
                                 const std::string& id, double consumer) const {
  service.number = number;
  service.id = s_.system.is_told ? id : "";
  const double pure_s = static_cast<double>(model.bytes) / s_.disk.bytes_per_s;
  service.init_s = s_.init_share * pure_s;
  service.device_bytes_per_s = consumer * s_.disk.bytes_per_s / service.workers;
  service.nodes = s_.nodes;
  service.seed = seed_;
  return service;
}

// Returns the model's bytes.
Result<uint64_t> StartUp::AddFiles(PageCache* cache) {
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
  if (s_.kv.is_on) return AddObjects(cache);
  for (size_t i = 0; i < s_.neighbours.size(); ++i)
    cache->AddFile("neighbour-" + std::to_string(i), s_.neighbours[i].bytes, "")->mount =
        kMaxMounts - 1;
  if (s_.folder.models > 0) {
    model_ = AddFolder(cache, s_.folder, s_.directory);
    return model_.bytes;
  }
  Result<bench::ModelSpec> spec = bench::FindModel(s_.model);
  if (spec.ok() && s_.layers > 0) spec = bench::KeepLayers(*spec, s_.layers);
  if (!spec.ok()) return spec.error();
  model_ = AddModel(cache, *spec, s_.scale, s_.directory, s_.packages);
  if (!s_.draft.empty()) {
    spec = bench::FindModel(s_.draft);
    if (!spec.ok()) return spec.error();
    ModelFiles draft = AddModel(cache, *spec, s_.scale, s_.directory + "/draft", {});
    std::move(draft.headers.begin(), draft.headers.end(), std::back_inserter(model_.headers));
    std::move(draft.shards.begin(), draft.shards.end(), std::back_inserter(model_.shards));
    model_.bytes += draft.bytes;
  }
  other_models_.assign(s_.others.size(), ModelFiles{});
  for (size_t i = 0; i < s_.others.size(); ++i) {
    if (s_.others[i].model.empty()) continue;
    spec = bench::FindModel(s_.others[i].model);
    if (spec.ok() && s_.layers > 0) spec = bench::KeepLayers(*spec, s_.layers);
    if (!spec.ok()) return spec.error();
    other_models_[i] = AddModel(cache, *spec, s_.scale, OtherDirectory(s_, i), {});
    for (const auto* paths : {&other_models_[i].shards, &other_models_[i].small})
      for (const std::string& path : *paths) cache->FindPath(path)->mount = MountOf(i);
  }
  return model_.bytes;
}

Status StartUp::Build() {
  MemoryOptions memory;
  memory.nodes = s_.nodes;
  const uint64_t own = LoaderBytes(s_);
  memory.other_bytes = own - std::min(own, s_.service.late_bytes);
  // The limit depends on the model's size: a first cache only counts.
  PageCache counter(memory);
  Result<uint64_t> bytes = AddFiles(&counter);
  if (!bytes.ok()) return bytes.error();
  if (s_.limit_share > 0) {
    memory.limit_bytes =
        own + s_.margin_bytes + static_cast<uint64_t>(s_.limit_share * static_cast<double>(*bytes));
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
  options.observes = s_.observes;
  options.lost_in_100 = s_.lost_events_in_100;
  kernel_ = std::make_unique<Kernel>(scheduler_.get(), disk_.get(), cache_.get(), options);
  const auto add_xpus = [this](const ServiceOptions& service) {
    for (uint32_t i = 0; !s_.observes && i < service.workers; ++i)
      xpu_nodes_.push_back(static_cast<int>((i + service.first_node) % s_.nodes));
  };
  add_xpus(s_.service);
  for (const OtherService& other : s_.others) add_xpus(other.service);
  return Ok();
}

// A shard whose header grew by a page, so all tensors move.
void StartUp::ReplaceShard() {
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

void StartUp::Warm(double share) {
  for (const std::string& path : model_.shards) {
    CacheFile* file = cache_->FindPath(path);
    const auto bytes = static_cast<uint64_t>(share * static_cast<double>(file->bytes));
    if (bytes > 0) kernel_->ReadQuietly(file, 0, bytes);
  }
}

// Reads all files, several at a time, as users do by hand.
void StartUp::ReadAllFiles(uint32_t processes) {
  constexpr uint64_t kCallBytes = 128 << 10;
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
        for (uint64_t at = 0; at < open->file->bytes; at += kCallBytes) {
          kernel_->Read(&thread, open, at, kCallBytes);
        }
        kernel_->Close(&thread, open);
      }
      kernel_->cpus().Settle(&thread);
      if (--left == 0) scheduler_->Wake(self);
    });
  }
  while (left > 0) scheduler_->Wait();
}

void StartUp::SamplePeriodically() {
  const CacheStats& cache = cache_->stats();
  result_.series.push_back(Sample{static_cast<double>(scheduler_->NowNs() - result_.zero_ns) / 1e9,
                                  cache_->resident_bytes(), disk_->stats().bytes, cache.evicted,
                                  cache.reclaimed});
  if (!done_) scheduler_->At(scheduler_->NowNs() + kSampleNs, [this] { SamplePeriodically(); });
}

std::vector<int8_t> StartUp::PageNodes() const {
  std::vector<int8_t> nodes;
  for (size_t shard = 0; shard < model_.headers.size(); ++shard) {
    const CacheFile* file = cache_->FindPath(model_.shards[shard]);
    const std::vector<uint16_t> owners =
        bench::PageOwners(model_.headers[shard], s_.service.tp, kPage);
    nodes.resize(std::max<size_t>(nodes.size(), file->first + file->pages), -1);
    for (size_t i = 0; i < owners.size(); ++i) {
      if (owners[i] == 0 || owners[i] == bench::kSharedPage) continue;
      const uint32_t rank = owners[i] - 1u;
      // The worker that takes this slice in this run.
      uint32_t worker = rank;
      for (uint32_t w = 0; w < s_.service.ranks.size(); ++w) {
        if (s_.service.ranks[w] == rank) worker = w;
      }
      nodes[file->first + i] = static_cast<int8_t>((worker + s_.service.first_node) % s_.nodes);
    }
  }
  return nodes;
}

void StartUp::Count() {
  const auto is_of = [](const CacheFile& file, const std::string& directory) {
    return file.path.starts_with(directory + "/");
  };
  for (const CacheFile& file : cache_->files()) {
    uint64_t needed = 0;
    for (uint32_t i = file.first; i < file.first + file.pages; ++i) {
      const Page& page = cache_->page(i);
      if (page.wanted) needed += kPage;
      if (page.wanted && !page.by_loader) result_.demanded += kPage;
      if (page.ever_read && !page.wanted) result_.unused += kPage;
    }
    // Files of a log lie anywhere.
    if (s_.others.empty() || is_of(file, s_.directory)) result_.needed += needed;
    for (size_t i = 0; i < s_.others.size(); ++i) {
      if (is_of(file, OtherDirectory(s_, i))) result_.others[i].needed += needed;
    }
  }
}

ServiceReport StartUp::Serve(bool through_ppc) {
  const std::string proc = through_ppc ? directory_ : "";
  if (!s_.log.empty()) {
    return LogService(kernel_.get(), log_, s_.nodes, through_ppc, proc).Run();
  }
  if (s_.kv.is_on) return ServeObjects(through_ppc, proc);
  service_ = std::make_unique<Service>(kernel_.get(), &model_, ServiceOf(), through_ppc, proc);
  return service_->Run();
}

void StartUp::ServePasses(const DiskStats& before) {
  // The machine's time to process ready, or to get a runner again, does not count for the service.
  const uint64_t begin_ns = scheduler_->NowNs();
  const uint64_t loaded = disk_->stats().bytes;
  for (uint32_t i = 0; service_ != nullptr && i < s_.service.serve_passes; ++i)
    result_.passes.push_back(service_->ServePass());
  const uint64_t served_ns = scheduler_->NowNs() - begin_ns;
  result_.passes_bytes = disk_->stats().bytes - loaded;
  result_.life_s = static_cast<double>(result_.report.ready_ns - result_.report.exec_ns -
                                       result_.report.rested_ns + served_ns) /
                   1e9;
  result_.life_disk = {disk_->stats().requests - before.requests,
                       disk_->stats().bytes - before.bytes};
  result_.failed_requests = kernel_->failed_requests();
  result_.errors = service_ != nullptr ? service_->Errors() : 0;
}

void StartUp::SetBadDisk() {
  const BadDisk& bad = s_.bad_disk;
  BadPages pages;
  pages.delay_ns = static_cast<uint64_t>(bad.delay_s * 1e9);
  if (bad.bytes > 0) {
    const CacheFile* file = cache_->FindPath(model_.shards[bad.shard % model_.shards.size()]);
    pages.first = file->first + PageOfOffset(std::min(bad.offset, file->bytes - 1));
    pages.end = pages.first + PageOfOffset(bad.bytes + kPage - 1);
  }
  if (bad.all_after_s > 0)
    pages.all_from_ns = result_.zero_ns + static_cast<uint64_t>(bad.all_after_s * 1e9);
  kernel_->SetBad(pages);
}

void StartUp::ServeAgain() {
  for (uint32_t i = 0; service_ != nullptr && i < s_.system.again; ++i) {
    scheduler_->Sleep(static_cast<uint64_t>(s_.system.again_after_s * 1e9));
    const uint64_t before = disk_->stats().bytes;
    result_.again_s = service_->RunAgain();
    result_.again_bytes = disk_->stats().bytes - before;
  }
}

void StartUp::Main() {
  if (s_.warm_share > 0) Warm(s_.warm_share);
  if (s_.replaced_shard >= 0 && !model_.headers.empty()) ReplaceShard();
  if (s_.system.is_cached) Warm(1);
  cache_->ForgetHistory();
  cache_->SetPageNodes(PageNodes());
  const DiskStats before = disk_->stats();
  result_.zero_ns = scheduler_->NowNs();
  result_.at_zero = cache_->resident_bytes();
  SamplePeriodically();
  if (s_.slow_at_s > 0) {
    scheduler_->At(result_.zero_ns + static_cast<uint64_t>(s_.slow_at_s * 1e9),
                   [this] { disk_->Slow(s_.slow_bytes_per_s, s_.slow_latency_ns); });
  }
  if (s_.system.cat_processes > 0) ReadAllFiles(s_.system.cat_processes);
  if (!s_.system.policy.empty()) {
    status_ = StartPolicy();
    if (!status_) return;
  }
  const bool through_ppc = supervisor_ != nullptr;
  if (through_ppc && s_.system.dies_at > 0) {
    const double share = s_.system.dies_at * static_cast<double>(model_.bytes);
    scheduler_->Spawn(
        [this, end = before.bytes + static_cast<uint64_t>(share)] { InjectFaultAt(end); });
  }
  others_left_ = s_.others.size();
  result_.others.resize(s_.others.size());
  Fiber* const self = scheduler_->Current();
  for (size_t i = 0; i < s_.others.size(); ++i) {
    scheduler_->Spawn([this, self, i] {
      RunOther(i);
      scheduler_->Wake(self);
    });
  }
  if (s_.bad_disk.bytes > 0 || s_.bad_disk.all_after_s > 0) SetBadDisk();
  for (uint32_t i = 0; i < s_.neighbours.size(); ++i)
    strangers_.push_back(scheduler_->Spawn([this, i] { RunNeighbour(s_.neighbours[i], i); }));
  for (uint32_t i = 0; i < s_.strangers.size(); ++i)
    strangers_.push_back(scheduler_->Spawn([this, i] { RunStranger(s_.strangers[i], i); }));
  result_.report = Serve(through_ppc);
  is_served_ = true;
  NoteFirstReady();
  const auto count = [&] {
    result_.cache = cache_->stats();
    result_.disk = {disk_->stats().requests - before.requests, disk_->stats().bytes - before.bytes};
    Count();
    const Result<RuntimeOptions> options =
        ParseRuntimeOptions(s_.system.config.value("runtime", Json::object()));
    const MemoryOptions& memory = cache_->options();
    const uint64_t total = memory.node_bytes * memory.nodes + memory.other_bytes;
    if (options.ok()) {
      result_.threshold_share = static_cast<double>(cache_->stats().peak + memory.other_bytes) /
                                (options->threshold * static_cast<double>(total));
    }
  };
  if (s_.others.empty()) count();
  while (is_away_) scheduler_->Sleep(kSampleNs);
  if (!status_) return;
  Json ready;
  if (through_ppc && s_.system.is_told && s_.system.says_ready) SendReady(0, s_.service_id, &ready);
  ServePasses(before);
  while (others_left_ > 0) scheduler_->Wait();
  for (Fiber* stranger : strangers_) scheduler_->Kill(stranger);
  if (!s_.others.empty()) count();
  if (!through_ppc) return;
  if (s_.system.dies_after_ready_s > 0) InjectFaultAfterReady();
  if (!status_) return;
  result_.status = supervisor_->runtime(0).StatusJson();
  result_.hooks = supervisor_->hook_times(0);
  if (!ready.is_null()) result_.status["ready"] = ready;
  ServeAgain();
  if (store_ != nullptr) result_.store_wait_s = static_cast<double>(store_->waited_ns()) / 1e9;
  supervisor_->RemoveAll();
}

Result<StartUpResult> StartUp::Run() {
  if (const Status built = Build(); !built) return built.error();
  result_.model_bytes = std::max<uint64_t>(model_.bytes, 1);
  scheduler_->Spawn([this] {
    Main();
    done_ = true;
  });
  (void)scheduler_->RunUntil([this] { return done_ || cache_->stats().read > max_bytes_; },
                             max_ns_);
  if (!done_) {
    // Fibers inside the runtime cannot be unwound: leak the machine.
    (void)scheduler_.release();
    (void)supervisor_.release();
    (void)store_.release();
    (void)kernel_.release();
    (void)disk_.release();
    (void)cache_.release();
    return Error{ETIMEDOUT, s_.name + ": the service has not ended after " +
                                std::to_string(max_ns_ / 1'000'000'000) + " s, or " +
                                std::to_string(max_bytes_ >> 20) + " MiB of the disk"};
  }
  supervisor_.reset();
  scheduler_.reset();  // unwinds waiting fibers while the machine exists
  if (!status_) return status_.error();
  return std::move(result_);
}

}  // namespace ppc::sim
