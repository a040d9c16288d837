// SPDX-License-Identifier: Apache-2.0
// Rivals that fill the page cache beside an unchanged loader.
// Threads: each function returns when the threads it started have ended.
#include "bench/rivals/prefetch.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <memory>
#include <mutex>
#include <utility>

#include "bench/rivals/crew.h"

namespace ppc::bench {
namespace {

Result<uint64_t> ReadFile(Io* io, const std::string& path, std::span<uint8_t> block,
                          const Crew& crew) {
  Result<std::unique_ptr<IoFile>> file = io->Open(path, false);
  if (!file.ok()) return file.error();
  uint64_t at = 0;
  while (!crew.HasFailed()) {
    const Result<uint64_t> got = (*file)->Read(at, block);
    if (!got.ok()) return got.error();
    at += *got;
    if (*got < block.size()) break;
  }
  return at;
}

// Files of one rank, taken one by one by its threads.
struct RankFiles {
  std::vector<std::string> files;
  std::atomic<size_t> next = 0;
};

struct Block {
  IoFile* file;
  uint64_t offset;
  uint64_t bytes;
};

}  // namespace

Status WillNeedFiles(Io* io, const std::vector<std::string>& files) {
  for (const std::string& path : files) {
    Result<std::unique_ptr<IoFile>> file = io->Open(path, false);
    if (!file.ok()) return file.error();
    if (const Status asked = (*file)->WillNeed(0, 0); !asked.ok()) return asked.error();
  }
  return Ok();
}

Result<uint64_t> PrefetchByRank(Io* io, const std::vector<std::string>& files,
                                const PrefetchConfig& config) {
  std::vector<RankFiles> ranks(config.ranks);
  for (size_t i = 0; i < files.size(); ++i) ranks[i % config.ranks].files.push_back(files[i]);
  std::atomic<uint64_t> bytes = 0;
  Crew crew;
  for (RankFiles& rank : ranks) {
    const size_t threads = std::min<size_t>(config.threads, rank.files.size());
    for (size_t i = 0; i < threads; ++i)
      crew.Start([io, &rank, &config, &bytes, &crew]() -> Status {
        std::vector<uint8_t> block(config.block_bytes);
        for (size_t file = rank.next++; file < rank.files.size() && !crew.HasFailed();
             file = rank.next++) {
          const Result<uint64_t> read = ReadFile(io, rank.files[file], block, crew);
          if (!read.ok()) return read.error();
          bytes += *read;
        }
        return Ok();
      });
  }
  if (const Status joined = crew.Join(); !joined.ok()) return joined.error();
  return bytes.load();
}

Result<uint64_t> SlideWindow(Io* io, const std::vector<std::string>& files,
                             const PrefetchConfig& config) {
  const uint64_t held = config.window_bytes / config.block_bytes;
  if (held < 1) return Error{EINVAL, "--window is smaller than --block: nothing fits into it"};
  std::vector<std::unique_ptr<IoFile>> open;
  std::vector<Block> blocks;
  for (const std::string& path : files) {
    Result<std::unique_ptr<IoFile>> file = io->Open(path, false);
    if (!file.ok()) return file.error();
    const uint64_t size = (*file)->bytes();
    for (uint64_t at = 0; at < size; at += config.block_bytes)
      blocks.push_back({file->get(), at, std::min(config.block_bytes, size - at)});
    open.push_back(std::move(*file));
  }
  std::mutex order;  // blocks are taken, and old ones dropped, in the order of the files
  size_t next = 0;
  std::atomic<uint64_t> bytes = 0;
  Crew crew;
  for (uint64_t i = 0; i < std::min<uint64_t>(config.threads, held); ++i)
    crew.Start([&]() -> Status {
      std::vector<uint8_t> buffer(config.block_bytes);
      while (!crew.HasFailed()) {
        const Block* block = nullptr;
        {
          const std::lock_guard<std::mutex> lock(order);
          if (next == blocks.size()) return Ok();
          if (next >= held) {
            // With the window before it: a folio that two blocks share is dropped by neither, and a
            // thread that is behind reads on in a block that was dropped.
            const Block& old = blocks[next - held];
            const uint64_t from = old.offset - std::min(old.offset, config.window_bytes);
            const Status dropped = old.file->DontNeed(from, old.offset + old.bytes - from);
            if (!dropped.ok()) return dropped.error();
          }
          block = &blocks[next++];
        }
        const Result<uint64_t> got =
            block->file->Read(block->offset, {buffer.data(), block->bytes});
        if (!got.ok()) return got.error();
        bytes += *got;
      }
      return Ok();
    });
  if (const Status joined = crew.Join(); !joined.ok()) return joined.error();
  return bytes.load();
}

}  // namespace ppc::bench
