// SPDX-License-Identifier: Apache-2.0
// One worker of a serving framework.
// Threads: one per process.
#include "tools/model/loadmodel/worker.h"

#include <fcntl.h>
#include <numaif.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string_view>
#include <utility>

#include "daemon/base/clock.h"
#include "daemon/base/cpu_set.h"
#include "daemon/base/files.h"
#include "daemon/base/unique_fd.h"
#include "tools/model/common/model_dir.h"
#include "tools/model/common/slice.h"
#include "tools/model/loadmodel/config.h"

namespace ppc::bench {
namespace {

// Sleeps until this CLOCK_MONOTONIC time; returns the ns slept.
uint64_t SleepUntil(uint64_t deadline_ns) {
  const uint64_t now = MonotonicNs();
  if (deadline_ns <= now) return 0;
  const timespec until{static_cast<time_t>(deadline_ns / kNsPerSec),
                       static_cast<long>(deadline_ns % kNsPerSec)};
  while (::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == EINTR) {
  }
  return MonotonicNs() - now;
}

double Seconds(uint64_t ns) { return static_cast<double>(ns) / 1e9; }
double Seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

Status BindToNode(int node) {
  const std::string path = "/sys/devices/system/node/node" + std::to_string(node) + "/cpulist";
  const Result<std::string> text = ReadLine(path);
  if (!text.ok()) return Error{ENOENT, "no NUMA node " + std::to_string(node) + " to bind to"};
  const Result<CpuList> cpus = ParseCpuList(*text);
  if (!cpus.ok()) return cpus.error();
  return BindThread(*cpus);
}

std::string Hex(uint64_t value) {
  char text[20];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

// Not std::shuffle: its result differs between libraries.
void Shuffle(uint64_t seed, std::vector<std::string>* names) {
  std::mt19937_64 random(seed);
  for (size_t i = names->size(); i > 1; --i) std::swap((*names)[i - 1], (*names)[random() % i]);
}

constexpr uint64_t kPageBytes = 4096;
constexpr uint64_t kEvery = 8;
constexpr size_t kBatchPages = 64;

// What O_DIRECT asks of offsets, lengths and memory on any disk of today.
constexpr uint64_t kDirectAlign = 4096;

class MappedShard : public ShardSource {
 public:
  MappedShard(std::string path, UniqueFd fd, uint8_t* map, uint64_t bytes)
      : path_(std::move(path)), fd_(std::move(fd)), map_(map), bytes_(bytes) {}
  MappedShard(const MappedShard&) = delete;
  MappedShard& operator=(const MappedShard&) = delete;
  ~MappedShard() override { ::munmap(map_, bytes_); }

  Result<ShardHeader> Header() override {
    const Result<uint64_t> length = ParseHeaderLength(map_, bytes_, path_);
    if (!length.ok()) return length.error();
    return ParseHeader({reinterpret_cast<const char*>(map_) + 8, *length}, bytes_, path_);
  }
  Result<const uint8_t*> Fetch(uint64_t offset, uint64_t) override { return map_ + offset; }

 private:
  std::string path_;
  UniqueFd fd_;
  uint8_t* map_;
  uint64_t bytes_;
};

class ReadShard : public ShardSource {
 public:
  ReadShard(std::string path, UniqueFd fd, uint64_t file_bytes)
      : path_(std::move(path)),
        fd_(std::move(fd)),
        file_bytes_(file_bytes),
        buffer_(
            static_cast<uint8_t*>(std::aligned_alloc(kDirectAlign, kPieceBytes + 2 * kDirectAlign)),
            &std::free) {}

  Result<ShardHeader> Header() override {
    // The buffered descriptor of the moment: headers are not aligned.
    const UniqueFd plain(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
    if (!plain.IsValid()) return PosixError(path_, errno);
    return ReadHeader(plain.Get(), path_);
  }

  // Reads whole aligned blocks in every mode, so that the modes differ in nothing else.
  Result<const uint8_t*> Fetch(uint64_t offset, uint64_t bytes) override {
    const uint64_t begin = offset / kDirectAlign * kDirectAlign;
    const uint64_t end = (offset + bytes + kDirectAlign - 1) / kDirectAlign * kDirectAlign;
    const uint64_t need = std::min(end, file_bytes_) - begin;
    for (uint64_t done = 0; done < need;) {
      const ssize_t got = ::pread(fd_.Get(), buffer_.get() + done, end - begin - done,
                                  static_cast<off_t>(begin + done));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return PosixError("reading " + path_, errno);
      if (got == 0) return Error{EIO, "reading " + path_ + ": the file became shorter"};
      done += static_cast<uint64_t>(got);
    }
    return buffer_.get() + (offset - begin);
  }

 private:
  std::string path_;
  UniqueFd fd_;
  uint64_t file_bytes_;
  std::unique_ptr<uint8_t, decltype(&std::free)> buffer_;
};

}  // namespace

Worker::Worker(const LoadConfig& config, ModelDir dir)
    : config_(config),
      dir_(std::move(dir)),
      rank_(config.RankOf(static_cast<uint32_t>(config.worker))),
      staging_(config.staging_bytes, 1),
      device_(config.device_mbps * 1e6, static_cast<uint32_t>(config.staging_bytes / kPieceBytes)) {
  if (config.shuffle != 0) Shuffle(config.shuffle, &dir_.shards);
  if (config.has_placement)
    placement_.emplace(config.NodeOf(static_cast<uint32_t>(config.worker)), rank_, config.tp);
}

Status Worker::Load() {
  begin_ns_ = MonotonicNs();
  for (uint32_t pass = 0; pass < config_.passes; ++pass)
    for (const std::string& shard : dir_.shards) {
      const std::string path = dir_.path + "/" + shard;
      Status loaded = LoadShard(path);
      if (loaded.ok() && config_.drops_shards) loaded = DropShard(path);
      if (!loaded.ok()) return loaded;
    }
  NextPiece();
  slept_ns_ += SleepUntil(device_.IdleAt());
  end_ns_ = MonotonicNs();
  kept_.clear();
  return Ok();
}

Status Worker::LoadShard(const std::string& path) {
  const ReadMode mode = config_.is_mmap     ? ReadMode::kMmap
                        : config_.is_direct ? ReadMode::kDirect
                                            : ReadMode::kRead;
  Result<std::unique_ptr<ShardSource>> opened = ShardSource::Open(path, mode);
  if (!opened.ok()) return opened.error();
  ShardSource* source = opened->get();
  Result<ShardHeader> header = source->Header();
  if (!header.ok()) return header.error();
  file_bytes_ += header->file_bytes;
  // Pages are replicated over ranks when several workers have the same one: none is exclusive.
  if (placement_ && config_.workers == config_.tp) placement_->BeginShard(*header);
  for (const Tensor& tensor : header->tensors) {
    const Slice slice = SliceTensor(tensor, rank_, config_.tp);
    Status taken = TakeRows(source, header->data_offset, slice);
    if (!taken.ok()) return taken;
    ++tensors_;
    tensor_bytes_ += tensor.bytes();
  }
  // Before the shard is unmapped.
  if (placement_) placement_->Flush();
  if (config_.keeps_mapped) kept_.push_back(std::move(*opened));
  return Ok();
}

// Narrow rows are fetched many at a time, wide ones one by one.
Status Worker::TakeRows(ShardSource* source, uint64_t data_offset, const Slice& slice) {
  const uint64_t begin = data_offset + slice.begin;
  if (slice.rows == 1 || slice.stride_bytes > kPieceBytes / 2) {
    for (uint64_t row = 0; row < slice.rows; ++row) {
      Status taken = TakeRun(source, begin + row * slice.stride_bytes, slice.run_bytes);
      if (!taken.ok()) return taken;
    }
    return Ok();
  }
  for (uint64_t row = 0; row < slice.rows;) {
    if (Room() < slice.run_bytes) NextPiece();
    const uint64_t rows =
        std::min({slice.rows - row, Room() / slice.run_bytes, kPieceBytes / slice.stride_bytes});
    const uint64_t offset = begin + row * slice.stride_bytes;
    Result<const uint8_t*> from =
        source->Fetch(offset, (rows - 1) * slice.stride_bytes + slice.run_bytes);
    if (!from.ok()) return from.error();
    for (uint64_t i = 0; i < rows; ++i)
      Take(*from + i * slice.stride_bytes, offset + i * slice.stride_bytes, slice.run_bytes);
    row += rows;
  }
  return Ok();
}

Status Worker::TakeRun(ShardSource* source, uint64_t offset, uint64_t bytes) {
  while (bytes > 0) {
    // All parts of a run but the last are a multiple of 16 bytes: the checksum asks for it.
    if (Room() < std::min<uint64_t>(bytes, 16)) NextPiece();
    const uint64_t part = bytes <= Room() ? bytes : Room() / 16 * 16;
    Result<const uint8_t*> from = source->Fetch(offset, part);
    if (!from.ok()) return from.error();
    Take(*from, offset, part);
    offset += part;
    bytes -= part;
  }
  return Ok();
}

void Worker::Take(const uint8_t* from, uint64_t offset, uint64_t bytes) {
  if (fill_ == 0) slept_ns_ += SleepUntil(device_.FreeAt());
  checksum_.CopyFold(staging_.data() + piece_ * kPieceBytes + fill_, from, bytes);
  fill_ += bytes;
  bytes_ += bytes;
  if (placement_ && config_.workers == config_.tp) placement_->Copied(offset, from, bytes);
}

void Worker::NextPiece() {
  if (fill_ == 0) return;
  uint64_t cost = fill_;
  if (config_.remote_cost > 1) {
    const uint64_t remote = placement_->TakeRemoteBytes();
    remote_bytes_ += remote;
    cost += static_cast<uint64_t>((config_.remote_cost - 1) * static_cast<double>(remote));
  }
  device_bytes_ += cost;
  device_.Submit(MonotonicNs(), cost);
  piece_ = (piece_ + 1) % (staging_.size() / kPieceBytes);
  fill_ = 0;
}

Json Worker::Report() const {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  Json report{{"worker", config_.worker},
              {"rank", rank_},
              {"load_s", Seconds(end_ns_ - begin_ns_)},
              {"begin_ns", begin_ns_},
              {"end_ns", end_ns_},
              {"bytes", bytes_},
              {"tensors", tensors_},
              {"tensor_bytes", tensor_bytes_},
              {"file_bytes", file_bytes_},
              {"checksum", Hex(checksum())},
              {"device_wait_s", Seconds(slept_ns_)},
              {"majflt", usage.ru_majflt},
              {"minflt", usage.ru_minflt},
              {"user_s", Seconds(usage.ru_utime)},
              {"sys_s", Seconds(usage.ru_stime)}};
  if (config_.remote_cost > 1) {
    report["remote_bytes"] = remote_bytes_;
    report["device_bytes"] = device_bytes_;
  }
  if (placement_) {
    const PlacementCount& count = placement_->count();
    Json by_node = Json::object();
    for (const auto& [node, pages] : count.by_node) by_node[std::to_string(node)] = pages;
    report["placement"] = {{"wanted_node", placement_->wanted_node()},
                           {"sampled", count.sampled},
                           {"right", count.right},
                           {"wrong", count.wrong},
                           {"absent", count.absent},
                           {"by_node", by_node}};
  }
  return report;
}

int WorkerMain(const LoadConfig& config) {
  const auto answer = [](const std::string& line) {
    return WriteAll(STDOUT_FILENO, line.data(), line.size()).ok();
  };
  const auto fail = [&](const Error& error) {
    answer(DumpJson(Json{{"error", error.message}}) + "\n");
    return 1;
  };
  if (config.is_bound) {
    const Status bound = BindToNode(config.NodeOf(static_cast<uint32_t>(config.worker)));
    if (!bound.ok()) return fail(bound.error());
  }
  Result<ModelDir> dir = OpenModelDir(config.dir);
  if (!dir.ok()) return fail(dir.error());
  Worker worker(config, std::move(*dir));
  if (!answer("ready\n")) return 1;
  char go = 0;
  if (::read(STDIN_FILENO, &go, 1) != 1) return 1;  // the service is gone
  const Status loaded = worker.Load();
  if (!loaded.ok()) return fail(loaded.error());
  return answer(DumpJson(worker.Report()) + "\n") ? 0 : 1;
}

void PlacementProbe::BeginShard(const ShardHeader& header) {
  owners_ = PageOwners(header, tp_, kPageBytes);
  next_page_ = 0;
}

void PlacementProbe::Copied(uint64_t offset, const uint8_t* address, uint64_t bytes) {
  const uint64_t end = (offset + bytes + kPageBytes - 1) / kPageBytes;
  const uint8_t* file_start = address - offset;
  uint64_t page = offset / kPageBytes;
  for (page = page < next_page_ ? next_page_ : page; page < end; ++page) {
    if (owners_[page] != rank_ + 1 || exclusive_++ % kEvery != 0) continue;
    batch_.push_back(const_cast<uint8_t*>(file_start + page * kPageBytes));
    if (batch_.size() == kBatchPages) Flush();
  }
  if (end > next_page_) next_page_ = end;
}

void PlacementProbe::Flush() {
  if (batch_.empty()) return;
  std::vector<int> status(batch_.size(), -1);
  const long failed = ::move_pages(0, batch_.size(), batch_.data(), nullptr, status.data(), 0);
  for (const int node : status) {
    ++count_.sampled;
    if (failed < 0 || node < 0) {
      ++count_.absent;
      continue;
    }
    ++count_.by_node[node];
    ++(node == wanted_node_ ? count_.right : count_.wrong);
  }
  batch_.clear();
}

uint64_t PlacementProbe::TakeRemoteBytes() {
  Flush();
  const uint64_t wrong = count_.wrong - wrong_taken_;
  wrong_taken_ = count_.wrong;
  return wrong * kEvery * kPageBytes;
}

Result<std::unique_ptr<ShardSource>> ShardSource::Open(const std::string& path, ReadMode mode) {
  const int flags = O_RDONLY | O_CLOEXEC | (mode == ReadMode::kDirect ? O_DIRECT : 0);
  UniqueFd fd(::open(path.c_str(), flags));
  if (!fd.IsValid()) return PosixError(path, errno);
  struct stat info {};
  if (::fstat(fd.Get(), &info) != 0) return PosixError(path, errno);
  const auto bytes = static_cast<uint64_t>(info.st_size);
  if (bytes < 8) return Error{EBADMSG, path + ": shorter than 8 bytes; not a safetensors file?"};
  if (mode != ReadMode::kMmap)
    return std::unique_ptr<ShardSource>(std::make_unique<ReadShard>(path, std::move(fd), bytes));
  void* map = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd.Get(), 0);
  if (map == MAP_FAILED) return PosixError("mapping " + path, errno);
  return std::unique_ptr<ShardSource>(
      std::make_unique<MappedShard>(path, std::move(fd), static_cast<uint8_t*>(map), bytes));
}

Status DropShard(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.IsValid()) return PosixError(path, errno);
  const int failed = ::posix_fadvise(fd.Get(), 0, 0, POSIX_FADV_DONTNEED);
  if (failed != 0) return PosixError("posix_fadvise " + path, failed);
  return Ok();
}

}  // namespace ppc::bench
