// SPDX-License-Identifier: Apache-2.0
#include "sim/service.h"

#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <utility>

#include "tools/model/mkmodel/writer.h"

namespace ppc::sim {
namespace {

constexpr int kFirstPid = 1'000'000'000;          // beyond any real process number
constexpr uint32_t kPidsApart = 1'000'000;        // between two services
constexpr uint32_t kSlotsApart = 3;               // a service and two workers
constexpr uint64_t kPieceBytes = 1 << 20;         // as tools/model/loadmodel
constexpr uint64_t kOwnPrefetchBytes = 16 << 20;  // a block of a loader's own prefetch
constexpr uint64_t kReadBytes = 128 << 10;        // a read() of small files

}  // namespace

// A thread of a worker, with its part of the staging buffer.
struct Service::Lane {
  Thread thread;
  std::vector<uint64_t> done_ns;  // of each piece: the device has taken it
  size_t piece = 0;
  uint64_t fill = 0;
};

struct Service::Worker {
  uint32_t index = 0;
  uint32_t rank = 0;
  Process process;
  std::vector<std::unique_ptr<Lane>> lanes;
  std::vector<size_t> shards;
  size_t next_shard = 0;
  uint32_t lanes_left = 0;
  uint64_t bytes = 0;
  uint64_t dies_at = ~uint64_t{0};
  std::set<uint32_t> pages;  // cached pages taken by a worker that will die
  bool is_dead = false;
  bool has_paused = false;
  std::map<size_t, OpenFile*> kept;  // shards that stay mapped
  double device_ns = 0;              // when the device is free
  Fiber* fiber = nullptr;
  std::vector<Fiber*> helpers;
};

Service::Service(Kernel* kernel, const ModelFiles* model, const ServiceOptions& options,
                 bool through_ppc, std::string proc)
    : kernel_(kernel),
      model_(model),
      options_(options),
      through_ppc_(through_ppc),
      proc_(std::move(proc)),
      random_(options.seed) {
  Measure();
}

Service::~Service() = default;

void Service::NewProcess(Process* process, int worker) {
  process->payer = static_cast<PayerId>(kServicePays + options_.number);
  process->slot = (options_.number * kSlotsApart + processes_++) % kMaxProcesses;
  const int at = worker + static_cast<int>(options_.first_node);
  process->node = worker < 0 ? 0 : at % static_cast<int>(options_.nodes);
  process->pid = kFirstPid + static_cast<int>(options_.number * kPidsApart + processes_ * 1000);
  MakeProcess(kernel_->scheduler(), process, worker, proc_, options_.id);
  if (leader_ == 0) leader_ = process->pid;
  if (options_.id.empty() && !proc_.empty()) WriteStat(*process, leader_, proc_);
}

std::vector<size_t> Service::ShardsOf(uint32_t worker) {
  std::vector<size_t> order;
  const std::vector<uint32_t> reads = options_.reads.empty() ? std::vector{0u} : options_.reads;
  for (const uint32_t model : reads) {
    const auto [first, count] = model_->models.empty()
                                    ? std::pair{size_t{0}, model_->shards.size()}
                                    : model_->models[model % model_->models.size()];
    for (size_t i = 0; i < count; ++i) order.push_back(first + i);
  }
  if (options_.order == ShardOrder::kShuffled) {
    std::mt19937_64 random(options_.seed * 7919 + (options_.shuffles_alike ? 0 : worker));
    // Not std::shuffle: results differ between libraries.
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random() % i]);
  }
  std::vector<size_t> all;
  for (uint32_t pass = 0; pass < options_.passes; ++pass) {
    all.insert(all.end(), order.begin(), order.end());
  }
  return all;
}

std::unique_ptr<Service::Worker> Service::NewWorker(uint32_t index) {
  auto worker = std::make_unique<Worker>();
  worker->index = index;
  worker->rank = (options_.ranks.empty() ? index : options_.ranks[index]) % options_.tp;
  NewProcess(&worker->process, static_cast<int>(index));
  worker->shards = ShardsOf(index);
  const uint32_t threads = std::max<uint32_t>(options_.threads, 1);
  const uint64_t pieces = std::max<uint64_t>(options_.staging_bytes / kPieceBytes / threads, 2);
  for (uint32_t i = 0; i < threads; ++i) {
    auto lane = std::make_unique<Lane>();
    lane->thread.process = &worker->process;
    lane->thread.tid = worker->process.pid + static_cast<int>(i);
    lane->done_ns.assign(pieces, 0);
    worker->lanes.push_back(std::move(lane));
  }
  return worker;
}

ServiceReport Service::Run() {
  Scheduler& scheduler = kernel_->scheduler();
  self_ = scheduler.Current();
  report_.exec_ns = scheduler.NowNs();
  Process process;
  NewProcess(&process, -1);
  Thread thread{.process = &process, .tid = process.pid};
  scheduler.Sleep(static_cast<uint64_t>(options_.launch_s * 1e9));
  const uint64_t small_from_ns = scheduler.NowNs();
  for (const std::string& path : model_->small) {
    OpenFile* open = kernel_->Open(&thread, kernel_->cache().FindPath(path), through_ppc_, false);
    for (uint64_t at = 0; at < open->file->bytes; at += kReadBytes) {
      kernel_->Read(&thread, open, at, kReadBytes);
    }
    kernel_->Close(&thread, open);
  }
  kernel_->cpus().Settle(&thread);
  report_.small_ns = scheduler.NowNs() - small_from_ns;
  scheduler.Sleep(static_cast<uint64_t>(options_.init_s * 1e9));
  report_.load_ns = scheduler.NowNs();
  PageCache& cache = kernel_->cache();
  if (options_.late_bytes > 0) cache.SetOther(cache.options().other_bytes + options_.late_bytes);
  workers_left_ = options_.workers;
  for (uint32_t i = 0; i < options_.workers; ++i) {
    all_.push_back(NewWorker(i));
    Worker* worker = all_.back().get();
    if (static_cast<int>(i) == options_.restart_worker) {
      worker->dies_at = static_cast<uint64_t>(options_.restart_at *
                                              static_cast<double>(model_->bytes) / options_.tp);
    }
    worker->fiber = scheduler.Spawn([this, worker] { RunWorker(worker); });
  }
  while (workers_left_ > 0) scheduler.Wait();
  report_.ready_ns = scheduler.NowNs();
  for (const auto& worker : all_) {
    for (Fiber* helper : worker->helpers) scheduler.Kill(helper);
    for (const auto& lane : worker->lanes) report_.majflt += lane->thread.majflt;
  }
  report_.errors = Errors();
  return report_;
}

uint64_t Service::Errors() const {
  uint64_t errors = 0;
  for (const auto& worker : all_)
    for (const auto& lane : worker->lanes) errors += lane->thread.errors;
  return errors;
}

double Service::ServePass() {
  token_ += std::exchange(is_serving_, true) ? 1 : 0;
  kernel_->scheduler().Sleep(static_cast<uint64_t>(options_.serve_pause_s * 1e9));
  return RunAgain();
}

double Service::RunAgain() {
  Scheduler& scheduler = kernel_->scheduler();
  const uint64_t begin_ns = scheduler.NowNs();
  self_ = scheduler.Current();
  workers_left_ = 0;
  for (const auto& one : all_) {
    Worker* const worker = one.get();
    if (worker->is_dead) continue;
    worker->next_shard = 0;
    worker->bytes = 0;
    worker->device_ns = 0;
    for (const auto& lane : worker->lanes) {
      lane->fill = lane->piece = 0;
      std::fill(lane->done_ns.begin(), lane->done_ns.end(), 0);
    }
    ++workers_left_;
    worker->fiber = scheduler.Spawn([this, worker] { RunWorker(worker); });
  }
  while (workers_left_ > 0) scheduler.Wait();
  return static_cast<double>(scheduler.NowNs() - begin_ns) / 1e9;
}

void Service::RunWorker(Worker* worker) {
  Scheduler& scheduler = kernel_->scheduler();
  worker->fiber = scheduler.Current();
  worker->lanes_left = static_cast<uint32_t>(worker->lanes.size());
  for (uint32_t i = 0; i < options_.own_prefetch_threads; ++i) {
    worker->helpers.push_back(scheduler.Spawn([this, worker, i] { PrefetchByItself(worker, i); }));
  }
  for (size_t i = 1; i < worker->lanes.size(); ++i) {
    Lane* lane = worker->lanes[i].get();
    scheduler.Spawn([this, worker, lane] { RunLane(worker, lane); });
  }
  RunLane(worker, worker->lanes[0].get());
  while (worker->lanes_left > 0) scheduler.Wait();
  const auto idle_ns = static_cast<uint64_t>(worker->device_ns);
  if (!worker->is_dead && idle_ns > scheduler.NowNs()) scheduler.SleepUntil(idle_ns);
  report_.bytes += worker->bytes;
  if (worker->is_dead) {
    for (Fiber* helper : worker->helpers) scheduler.Kill(helper);
    scheduler.Sleep(static_cast<uint64_t>(options_.restart_pause_s * 1e9));
    all_.push_back(NewWorker(worker->index));
    RunWorker(all_.back().get());
    return;
  }
  if (--workers_left_ == 0) scheduler.Wake(self_);
}

void Service::RunLane(Worker* worker, Lane* lane) {
  while (!worker->is_dead && worker->next_shard < worker->shards.size()) {
    const size_t at = worker->next_shard++;
    if (at > 0) RestBefore(worker, lane, worker->shards[at]);
    LoadShard(worker, lane, worker->shards[at]);
  }
  NextPiece(worker, lane);
  kernel_->cpus().Settle(&lane->thread);
  --worker->lanes_left;
  kernel_->scheduler().Wake(worker->fiber);
}

void Service::LoadShard(Worker* worker, Lane* lane, size_t shard) {
  const bench::ShardHeader& header = model_->headers[shard];
  const bool is_mapped = options_.mode == ReadMode::kMmap;
  const auto known = worker->kept.find(shard);
  const bool is_new = known == worker->kept.end();
  OpenFile* const open =
      is_new ? kernel_->Open(&lane->thread, kernel_->cache().FindPath(model_->shards[shard]),
                             through_ppc_, options_.mode == ReadMode::kDirect)
             : known->second;
  if (KeepsMapping()) worker->kept[shard] = open;
  if (is_mapped && is_new && options_.populates) kernel_->Populate(&lane->thread, open);
  if (is_mapped) {
    kernel_->Access(&lane->thread, open, 0, header.data_offset);
  } else {
    kernel_->Read(&lane->thread, open, 0, header.data_offset);
  }
  std::vector<const bench::Tensor*> tensors;
  const auto end = static_cast<uint64_t>(options_.part * static_cast<double>(header.file_bytes));
  for (const bench::Tensor& tensor : header.tensors)
    if (tensor.begin < end) tensors.push_back(&tensor);
  for (size_t i = 0; i + 1 < tensors.size(); ++i) {
    if (options_.swap_tensors == 0) break;
    if (static_cast<double>(random_() % 10000) < options_.swap_tensors * 10000) {
      std::swap(tensors[i], tensors[i + 1]);
    }
  }
  for (const bench::Tensor* tensor : tensors) {
    if (worker->is_dead) break;
    for (const bench::Slice& slice : SlicesOf(*worker, *tensor))
      TakeRows(worker, lane, open, header.data_offset, slice);
    PauseIfDue(worker, lane);
    if (worker->bytes >= worker->dies_at && !std::exchange(worker->is_dead, true))
      CountLost(worker);
  }
  if (KeepsMapping()) return;
  if (is_mapped) kernel_->Munmap(&lane->thread, open);
  kernel_->Close(&lane->thread, open);
}

// The service has one worker with one thread: no other reads meanwhile.
void Service::RestBefore(Worker* worker, Lane* lane, size_t shard) {
  if (options_.rest_s == 0 || is_serving_) return;
  const auto begins = [shard](const auto& model) { return model.first == shard; };
  if (std::ranges::none_of(model_->models, begins)) return;
  NextPiece(worker, lane);
  kernel_->cpus().Settle(&lane->thread);
  const auto ns = static_cast<uint64_t>(options_.rest_s * 1e9);
  kernel_->scheduler().Sleep(ns);
  report_.rested_ns += ns;
}

void Service::PauseIfDue(Worker* worker, Lane* lane) {
  if (options_.pause_at == 0 || is_serving_ || worker->has_paused) return;
  const double all = static_cast<double>(model_->bytes) / options_.tp;
  if (static_cast<double>(worker->bytes) < options_.pause_at * all) return;
  worker->has_paused = true;
  kernel_->cpus().Settle(&lane->thread);
  // The end of another lane wakes the worker's fiber, which may be this lane's.
  Scheduler& scheduler = kernel_->scheduler();
  const uint64_t end_ns = scheduler.NowNs() + static_cast<uint64_t>(options_.pause_s * 1e9);
  while (scheduler.NowNs() < end_ns) scheduler.SleepUntil(end_ns);
}

// As tools/model/loadmodel/worker.cc.
void Service::TakeRows(Worker* worker, Lane* lane, OpenFile* open, uint64_t data,
                       const bench::Slice& slice) {
  const uint64_t begin = data + slice.begin;
  if (slice.rows == 0) return;
  if (slice.rows == 1 || slice.stride_bytes > kPieceBytes / 2) {
    for (uint64_t row = 0; row < slice.rows; ++row) {
      TakeRun(worker, lane, open, begin + row * slice.stride_bytes, slice.run_bytes);
    }
    return;
  }
  for (uint64_t row = 0; row < slice.rows;) {
    if (kPieceBytes - lane->fill < slice.run_bytes) NextPiece(worker, lane);
    const uint64_t rows = std::min({slice.rows - row, (kPieceBytes - lane->fill) / slice.run_bytes,
                                    kPieceBytes / slice.stride_bytes});
    const uint64_t offset = begin + row * slice.stride_bytes;
    Fetch(worker, lane, open, offset, (rows - 1) * slice.stride_bytes + slice.run_bytes);
    for (uint64_t i = 0; i < rows; ++i) {
      Take(worker, lane, open, offset + i * slice.stride_bytes, slice.run_bytes);
    }
    row += rows;
  }
}

void Service::TakeRun(Worker* worker, Lane* lane, OpenFile* open, uint64_t offset, uint64_t bytes) {
  while (bytes > 0) {
    if (lane->fill == kPieceBytes) NextPiece(worker, lane);
    const uint64_t part = std::min(bytes, kPieceBytes - lane->fill);
    Fetch(worker, lane, open, offset, part);
    Take(worker, lane, open, offset, part);
    offset += part;
    bytes -= part;
  }
}

void Service::Fetch(Worker*, Lane* lane, OpenFile* open, uint64_t offset, uint64_t bytes) {
  if (options_.mode == ReadMode::kMmap) return;
  const uint64_t begin = offset / kPage * kPage;
  const uint64_t end = (offset + bytes + kPage - 1) / kPage * kPage;
  kernel_->Read(&lane->thread, open, begin, end - begin);
}

void Service::Take(Worker* worker, Lane* lane, OpenFile* open, uint64_t offset, uint64_t bytes) {
  Scheduler& scheduler = kernel_->scheduler();
  if (lane->fill == 0) {
    const uint64_t free_ns = lane->done_ns[lane->piece];
    if (free_ns > scheduler.NowNs()) {
      kernel_->cpus().Settle(&lane->thread);
      while (free_ns > scheduler.NowNs()) scheduler.SleepUntil(free_ns);
    }
  }
  if (options_.mode == ReadMode::kMmap) kernel_->Access(&lane->thread, open, offset, bytes);
  if (is_serving_ && options_.serve_page_ns > 0)
    kernel_->cpus().Use(options_.serve_page_ns * bytes / kPage, &lane->thread);
  lane->fill += bytes;
  worker->bytes += bytes;
  if (worker->dies_at == ~uint64_t{0} || bytes == 0) return;
  for (uint32_t page = PageOfOffset(offset); page <= PageOfOffset(offset + bytes - 1); ++page)
    worker->pages.insert(open->file->first + page);
}

void Service::CountLost(Worker* worker) {
  for (const uint32_t page : worker->pages)
    report_.lost += kernel_->cache().page(page).state == PageState::kAbsent ? kPage : 0;
}

void Service::NextPiece(Worker* worker, Lane* lane) {
  if (lane->fill == 0) return;
  kernel_->cpus().Settle(&lane->thread);
  double ns = options_.device_bytes_per_s == 0 || is_serving_
                  ? 0
                  : 1e9 * static_cast<double>(lane->fill) / options_.device_bytes_per_s;
  if (options_.jitter > 0) {
    ns *= 1 + options_.jitter * (static_cast<double>(random_() % 20001) / 10000 - 1);
  }
  const auto now = static_cast<double>(kernel_->scheduler().NowNs());
  worker->device_ns = std::max(worker->device_ns, now) + ns;
  lane->done_ns[lane->piece] = static_cast<uint64_t>(worker->device_ns);
  lane->piece = (lane->piece + 1) % lane->done_ns.size();
  lane->fill = 0;
}

// Rank r reads whole shards r::N, as serving frameworks' own prefetch does.
void Service::PrefetchByItself(Worker* worker, uint32_t number) {
  Thread thread{.process = &worker->process, .tid = worker->process.pid + 100 + int(number)};
  size_t turn = 0;
  for (size_t shard = worker->rank; shard < model_->shards.size(); shard += options_.workers) {
    if (turn++ % options_.own_prefetch_threads != number) continue;
    OpenFile* open = kernel_->Open(&thread, kernel_->cache().FindPath(model_->shards[shard]),
                                   through_ppc_, false);
    for (uint64_t at = 0; at < open->file->bytes; at += kOwnPrefetchBytes) {
      kernel_->Read(&thread, open, at, kOwnPrefetchBytes);
    }
    kernel_->cpus().Settle(&thread);
    kernel_->Close(&thread, open);
  }
}

}  // namespace ppc::sim
