// SPDX-License-Identifier: Apache-2.0
// A loader of its own as ServerlessLLM's store has it.
// Threads: see the header.
#include "bench/rivals/direct.h"

#include <time.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "daemon/base/clock.h"

namespace ppc::bench {
namespace {

void SleepUntil(uint64_t deadline_ns) {
  const timespec until{static_cast<time_t>(deadline_ns / kNsPerSec),
                       static_cast<long>(deadline_ns % kNsPerSec)};
  while (::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == EINTR) {
  }
}

}  // namespace

std::vector<Chunk> ChunksOf(const std::vector<uint64_t>& file_bytes, uint64_t chunk_bytes,
                            uint32_t worker, uint32_t workers) {
  std::vector<Chunk> all;
  for (size_t file = 0; file < file_bytes.size(); ++file)
    for (uint64_t at = 0; at < file_bytes[file]; at += chunk_bytes)
      all.push_back({file, at, std::min(chunk_bytes, file_bytes[file] - at)});
  const auto cut = [&](uint32_t index) {
    return all.begin() + static_cast<ptrdiff_t>(all.size() * index / workers);
  };
  return {cut(worker), cut(worker + 1)};
}

Result<std::unique_ptr<DirectWorker>> DirectWorker::Make(Io* io,
                                                         const std::vector<std::string>& files,
                                                         const DirectConfig& config,
                                                         uint32_t worker, Sink sink) {
  const uint64_t slots = config.pool_bytes / config.workers / config.chunk_bytes;
  if (slots < 1)
    return Error{EINVAL,
                 "--pool does not hold one chunk for each worker; make it larger or "
                 "--chunk smaller"};
  std::unique_ptr<DirectWorker> made(new DirectWorker(config, std::move(sink)));
  std::vector<uint64_t> sizes;
  for (const std::string& path : files) {
    Result<std::unique_ptr<IoFile>> file = io->Open(path, true);
    if (!file.ok()) return file.error();
    sizes.push_back((*file)->bytes());
    made->files_.push_back(std::move(*file));
  }
  made->chunks_ = ChunksOf(sizes, config.chunk_bytes, worker, config.workers);
  made->filled_ns_.assign(made->chunks_.size(), 0);
  for (uint64_t i = 0; i < std::min<uint64_t>(slots, made->chunks_.size()); ++i) {
    made->slots_.emplace_back(
        static_cast<uint8_t*>(std::aligned_alloc(kDirectAlign, config.chunk_bytes)), &std::free);
    if (!made->slots_.back()) return Error{ENOMEM, "no memory for the pool; make --pool smaller"};
  }
  return made;
}

DirectWorker::~DirectWorker() { Stop(Error{ECANCELED, "stopped"}); }

void DirectWorker::Stop(const Error& error) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!error_) error_ = error;
    is_stopped_ = true;
  }
  changed_.notify_all();
}

void DirectWorker::StartReading() {
  const size_t threads = std::min<size_t>(config_.threads, slots_.size());
  for (size_t i = 0; i < threads; ++i) crew_.Start([this] { return Read(); });
}

Status DirectWorker::Read() {
  for (;;) {
    size_t index = 0;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [this] {
        return is_stopped_ || next_ == chunks_.size() || next_ - released_ < slots_.size();
      });
      if (is_stopped_ || next_ == chunks_.size()) return Ok();
      index = next_++;
    }
    if (const Status read = ReadChunk(index); !read.ok()) {
      Stop(read.error());
      return read.error();
    }
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      filled_ns_[index] = MonotonicNs();
    }
    changed_.notify_all();
  }
}

Status DirectWorker::ReadChunk(size_t index) {
  const Chunk& chunk = chunks_[index];
  const uint64_t whole = (chunk.bytes + kDirectAlign - 1) / kDirectAlign * kDirectAlign;
  const Result<uint64_t> got =
      files_[chunk.file]->Read(chunk.offset, {slots_[index % slots_.size()].get(), whole});
  if (!got.ok()) return got.error();
  if (*got < chunk.bytes) return Error{EIO, "a shard became shorter while it was read"};
  return Ok();
}

Status DirectWorker::Load() {
  const uint64_t load_ns = MonotonicNs();
  for (size_t i = 0; i < chunks_.size(); ++i) {
    uint64_t arrived_ns = 0;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [this, i] { return is_stopped_ || filled_ns_[i] != 0; });
      if (filled_ns_[i] == 0) return *error_;
      arrived_ns = filled_ns_[i];
    }
    // By when it arrived, not by when this thread woke up: late wake-ups do not add up.
    device_.Submit(std::max(arrived_ns, load_ns), chunks_[i].bytes);
    SleepUntil(device_.IdleAt());
    if (sink_) sink_(chunks_[i], slots_[i % slots_.size()].get());
    bytes_ += chunks_[i].bytes;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      released_ = i + 1;
    }
    changed_.notify_all();
  }
  return crew_.Join();
}

}  // namespace ppc::bench
