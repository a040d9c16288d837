// SPDX-License-Identifier: Apache-2.0
// The rival loaders do what their names say: which bytes they ask for, in which order, by how many
// threads, what they drop, and what is in the page cache afterwards.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "bench/rivals/direct.h"
#include "bench/rivals/io.h"
#include "bench/rivals/prefetch.h"
#include "daemon/base/unique_fd.h"
#include "tests/unit/has.h"
#include "tests/unit/temp_tree.h"
#include "tools/model/sample/residency.h"

namespace ppc::bench {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kBlock = 64 << 10;

struct Call {
  enum Kind { kOpen, kRead, kWillNeed, kDontNeed } kind;
  std::string file;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  std::thread::id thread;
  bool is_direct = false;
};

// The system's calls, noted; reads may wait for each other, or fail.
class NotedIo : public Io {
 public:
  Result<std::unique_ptr<IoFile>> Open(const std::string& path, bool is_direct) override {
    Note({Call::kOpen, Name(path), 0, 0, std::this_thread::get_id(), is_direct});
    // Buffered on the host: what the tests look at here is what is asked for.
    Result<std::unique_ptr<IoFile>> file = system_->Open(path, false);
    if (!file.ok()) return file.error();
    return std::unique_ptr<IoFile>(std::make_unique<File>(this, Name(path), std::move(*file)));
  }

  // Until `readers` reads are under way at once (or long enough to know that they never are).
  void HoldUntil(size_t readers) { wanted_ = readers; }
  void FailReadsOf(const std::string& file) { failing_ = file; }

  std::vector<Call> Calls(Call::Kind kind, const std::string& file = "") {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::vector<Call> chosen;
    for (const Call& call : calls_)
      if (call.kind == kind && (file.empty() || call.file == file)) chosen.push_back(call);
    return chosen;
  }
  const std::vector<Call>& All() const { return calls_; }
  size_t most_at_once() const { return most_; }

 private:
  class File : public IoFile {
   public:
    File(NotedIo* io, std::string name, std::unique_ptr<IoFile> file)
        : io_(io), name_(std::move(name)), file_(std::move(file)) {}
    uint64_t bytes() const override { return file_->bytes(); }
    Result<uint64_t> Read(uint64_t offset, std::span<uint8_t> to) override {
      io_->BeginRead({Call::kRead, name_, offset, to.size(), std::this_thread::get_id()});
      Result<uint64_t> got = io_->failing_ == name_
                                 ? Result<uint64_t>(Error{EIO, "reading " + name_ + ": broken"})
                                 : file_->Read(offset, to);
      io_->EndRead();
      return got;
    }
    Status WillNeed(uint64_t offset, uint64_t bytes) override {
      io_->Note({Call::kWillNeed, name_, offset, bytes, std::this_thread::get_id()});
      return file_->WillNeed(offset, bytes);
    }
    Status DontNeed(uint64_t offset, uint64_t bytes) override {
      io_->Note({Call::kDontNeed, name_, offset, bytes, std::this_thread::get_id()});
      return file_->DontNeed(offset, bytes);
    }

   private:
    NotedIo* io_;
    std::string name_;
    std::unique_ptr<IoFile> file_;
  };

  static std::string Name(const std::string& path) { return fs::path(path).filename(); }
  void Note(Call call) {
    const std::lock_guard<std::mutex> lock(mutex_);
    calls_.push_back(std::move(call));
  }
  void BeginRead(Call call) {
    std::unique_lock<std::mutex> lock(mutex_);
    calls_.push_back(std::move(call));
    most_ = std::max(most_, ++reading_);
    changed_.notify_all();
    changed_.wait_for(lock, std::chrono::seconds(5), [this] { return most_ >= wanted_; });
  }
  void EndRead() {
    const std::lock_guard<std::mutex> lock(mutex_);
    --reading_;
  }

  std::unique_ptr<Io> system_ = MakeSystemIo();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Call> calls_;
  size_t reading_ = 0, most_ = 0, wanted_ = 0;
  std::string failing_;
};

class RivalsTest : public ::testing::Test {
 protected:
  // Files a, b, c, ... of these sizes whose bytes tell their place; none in the page cache.
  std::vector<std::string> Make(const std::vector<uint64_t>& sizes) {
    std::vector<std::string> paths;
    for (size_t i = 0; i < sizes.size(); ++i) {
      paths.push_back(dir_ / std::string(1, static_cast<char>('a' + i)));
      std::string text(sizes[i], '\0');
      for (size_t at = 0; at < text.size(); ++at) text[at] = Byte(i, at);
      std::ofstream(paths.back(), std::ios::binary) << text;
      const UniqueFd fd(::open(paths.back().c_str(), O_RDWR));
      EXPECT_EQ(::fsync(fd.Get()), 0);
      EXPECT_EQ(::posix_fadvise(fd.Get(), 0, 0, POSIX_FADV_DONTNEED), 0);
    }
    return paths;
  }
  static char Byte(size_t file, uint64_t at) {
    return static_cast<char>(file * 31 + at / 4096 + at % 251);
  }
  static uint64_t Resident(const std::string& path) {
    const Result<MappedFile> map = MappedFile::Open(path);
    EXPECT_TRUE(map.ok());
    return map->Resident(0, map->pages());
  }
  // tmpfs drops nothing, and refuses O_DIRECT.
  bool IsOnDisk() { return Resident(Make({4096})[0]) == 0; }

  const TempTree tree_;
  const fs::path dir_ = tree_.Root();
  NotedIo io_;
};

TEST_F(RivalsTest, WillNeedAsksOncePerWholeFileAndReadsNothing) {
  const std::vector<std::string> files = Make({3 * kBlock, 100, kBlock});
  ASSERT_TRUE(WillNeedFiles(&io_, files).ok());
  const std::vector<Call> asked = io_.Calls(Call::kWillNeed);
  ASSERT_EQ(asked.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(asked[i].file, std::string(1, static_cast<char>('a' + i)));
    EXPECT_EQ(asked[i].offset, 0u);
    EXPECT_EQ(asked[i].bytes, 0u);  // to the end
  }
  EXPECT_TRUE(io_.Calls(Call::kRead).empty());
  EXPECT_TRUE(io_.Calls(Call::kDontNeed).empty());
}

TEST_F(RivalsTest, PrefetchReadsEachFileOnceInBlocksByOneThread) {
  const std::vector<uint64_t> sizes{3 * kBlock + 5, kBlock, 1, 2 * kBlock, 4 * kBlock};
  const std::vector<std::string> files = Make(sizes);
  const uint64_t bytes = Value(PrefetchByRank(&io_, files, {2, 8, kBlock, 0}));
  EXPECT_EQ(bytes, 10 * kBlock + 6);
  for (size_t i = 0; i < files.size(); ++i) {
    const std::vector<Call> reads = io_.Calls(Call::kRead, std::string(1, "abcde"[i]));
    ASSERT_EQ(reads.size(), sizes[i] / kBlock + 1);  // the last finds the end
    for (size_t block = 0; block < reads.size(); ++block) {
      EXPECT_EQ(reads[block].offset, block * kBlock);
      EXPECT_EQ(reads[block].bytes, kBlock);
      EXPECT_EQ(reads[block].thread, reads[0].thread);
    }
    EXPECT_EQ(Resident(files[i]), (sizes[i] + 4095) / 4096);
  }
  EXPECT_TRUE(io_.Calls(Call::kDontNeed).empty());
}

TEST_F(RivalsTest, PrefetchSplitsFilesByRank) {
  // One thread for each of two ranks: rank 0 takes a, c, e in this order, rank 1 b and d.
  const std::vector<std::string> files = Make({kBlock, kBlock, kBlock, kBlock, kBlock});
  ASSERT_TRUE(PrefetchByRank(&io_, files, {2, 1, kBlock, 0}).ok());
  std::map<std::thread::id, std::string> order;
  for (const Call& open : io_.Calls(Call::kOpen)) order[open.thread] += open.file;
  std::set<std::string> shares;
  for (const auto& [thread, names] : order) shares.insert(names);
  EXPECT_EQ(shares, (std::set<std::string>{"ace", "bd"}));
}

TEST_F(RivalsTest, PrefetchHasItsThreadsForEachRankAndNoMore) {
  const std::vector<std::string> files = Make(std::vector<uint64_t>(12, kBlock));
  io_.HoldUntil(6);
  ASSERT_TRUE(PrefetchByRank(&io_, files, {2, 3, kBlock, 0}).ok());
  EXPECT_EQ(io_.most_at_once(), 6u);
}

TEST_F(RivalsTest, PrefetchTellsWhatFailed) {
  const std::vector<std::string> files = Make({kBlock, kBlock});
  io_.FailReadsOf("b");
  const Result<uint64_t> bytes = PrefetchByRank(&io_, files, {1, 2, kBlock, 0});
  ASSERT_FALSE(bytes.ok());
  EXPECT_EQ(bytes.error().message, "reading b: broken");
  EXPECT_FALSE(PrefetchByRank(&io_, {dir_ / "absent"}, {1, 1, kBlock, 0}).ok());
}

TEST_F(RivalsTest, WindowSlidesInOrderAndDropsBehindItself) {
  const std::vector<std::string> files = Make({3 * kBlock, 2 * kBlock + 100, kBlock});
  const uint64_t bytes = Value(SlideWindow(&io_, files, {1, 1, kBlock, 2 * kBlock}));
  EXPECT_EQ(bytes, 6 * kBlock + 100);
  std::string story;
  for (const Call& call : io_.All())
    if (call.kind != Call::kOpen)
      story += (call.kind == Call::kRead ? " +" : " -") + call.file +
               std::to_string((call.offset + call.bytes - 1) / kBlock);
  EXPECT_EQ(story, " +a0 +a1 -a0 +a2 -a1 +b0 -a2 +b1 -b0 +b2 -b1 +c0");
  // Each with the two blocks before it.
  EXPECT_EQ(io_.Calls(Call::kDontNeed).at(2).offset, 0u);
}

TEST_F(RivalsTest, WindowLeavesNoMoreThanItsSize) {
  if (!IsOnDisk()) GTEST_SKIP() << dir_ << " is not on a disk";
  constexpr uint64_t kMiB = 1 << 20;
  const std::vector<std::string> files = Make({16 * kMiB, 16 * kMiB});
  const std::unique_ptr<Io> io = MakeSystemIo();
  ASSERT_TRUE(SlideWindow(io.get(), files, {1, 2, kMiB, 4 * kMiB}).ok());
  const uint64_t pages = Resident(files[0]) + Resident(files[1]);
  EXPECT_GE(pages, 4 * kMiB / 4096);
  // At the end of a file a thread may be behind.
  EXPECT_LT(pages, 2 * 4 * kMiB / 4096);
}

TEST_F(RivalsTest, WindowHasItsThreadsAndNoMore) {
  const std::vector<std::string> files = Make({12 * kBlock});
  io_.HoldUntil(3);
  ASSERT_TRUE(SlideWindow(&io_, files, {1, 3, kBlock, 8 * kBlock}).ok());
  EXPECT_EQ(io_.most_at_once(), 3u);
  EXPECT_EQ(io_.Calls(Call::kRead).size(), 12u);
  EXPECT_EQ(io_.Calls(Call::kDontNeed).size(), 4u);
}

TEST_F(RivalsTest, WindowTellsWhatFailed) {
  const std::vector<std::string> files = Make({kBlock});
  io_.FailReadsOf("a");
  EXPECT_EQ(SlideWindow(&io_, files, {1, 2, kBlock, kBlock}).error().message, "reading a: broken");
  EXPECT_TRUE(Has(SlideWindow(&io_, files, {1, 2, kBlock, 1}).error().message, "--window"));
}

TEST_F(RivalsTest, ChunksOfAllWorkersAreTheFilesOnceInOrder) {
  const std::vector<uint64_t> sizes{3 * kBlock + 5, 1, 4 * kBlock};
  std::vector<Chunk> all;
  for (uint32_t worker = 0; worker < 3; ++worker)
    for (const Chunk& chunk : ChunksOf(sizes, kBlock, worker, 3)) all.push_back(chunk);
  EXPECT_EQ(all, ChunksOf(sizes, kBlock, 0, 1));
  ASSERT_EQ(all.size(), 9u);
  EXPECT_EQ(all[3], (Chunk{0, 3 * kBlock, 5}));
  EXPECT_EQ(all[4], (Chunk{1, 0, 1}));
  EXPECT_EQ(all[5], (Chunk{2, 0, kBlock}));
  EXPECT_EQ(ChunksOf(sizes, kBlock, 1, 3).size(), 3u);
}

TEST_F(RivalsTest, DirectHandsOverEveryByteInOrder) {
  const std::vector<uint64_t> sizes{3 * kBlock + 5, kBlock, 2 * kBlock + 4097};
  const std::vector<std::string> files = Make(sizes);
  std::vector<Chunk> seen;
  bool is_equal = true;
  const auto worker = DirectWorker::Make(
      &io_, files, {1, 3, kBlock, 2 * kBlock, 0}, 0, [&](const Chunk& chunk, const uint8_t* bytes) {
        seen.push_back(chunk);
        for (uint64_t i = 0; i < chunk.bytes; ++i)
          is_equal &= static_cast<char>(bytes[i]) == Byte(chunk.file, chunk.offset + i);
      });
  ASSERT_TRUE(worker.ok()) << worker.error().message;
  (*worker)->StartReading();
  ASSERT_TRUE((*worker)->Load().ok());
  EXPECT_EQ(seen, ChunksOf(sizes, kBlock, 0, 1));
  EXPECT_TRUE(is_equal);
  EXPECT_EQ((*worker)->bytes(), 6 * kBlock + 5 + 4097);
  for (const Call& open : io_.Calls(Call::kOpen)) EXPECT_TRUE(open.is_direct);
  for (const Call& read : io_.Calls(Call::kRead)) {
    EXPECT_EQ(read.offset % kBlock, 0u);
    EXPECT_EQ(read.bytes % kDirectAlign, 0u);
    EXPECT_LE(read.bytes, kBlock);
  }
}

TEST_F(RivalsTest, DirectLeavesNothingInThePageCache) {
  if (!IsOnDisk()) GTEST_SKIP() << dir_ << " is not on a disk";
  const std::vector<std::string> files = Make({5 * kBlock + 5});
  const std::unique_ptr<Io> io = MakeSystemIo();
  const auto worker =
      Value(DirectWorker::Make(io.get(), files, {1, 2, kBlock, 4 * kBlock, 0}, 0, {}));
  worker->StartReading();
  ASSERT_TRUE(IsOk(worker->Load()));
  EXPECT_EQ(Resident(files[0]), 0u);
}

TEST_F(RivalsTest, DirectReadsNoMoreThanItsPoolAhead) {
  // Until Load, two workers' pools of three chunks each fill, and no more; each with its threads.
  const std::vector<std::string> files = Make({20 * kBlock});
  const DirectConfig config{2, 2, kBlock, 6 * kBlock, 0};
  io_.HoldUntil(4);
  std::vector<std::unique_ptr<DirectWorker>> workers;
  size_t released = 0;
  bool is_within = true;
  for (uint32_t i = 0; i < 2; ++i) {
    auto made = DirectWorker::Make(&io_, files, config, i, [&, i](const Chunk&, const uint8_t*) {
      // This chunk is not released yet: at most three of this worker's beyond those released.
      const size_t first = i == 0 ? 0 : 10;
      size_t mine = 0;
      for (const Call& read : io_.Calls(Call::kRead))
        mine += read.offset / kBlock >= first && read.offset / kBlock < first + 10 ? 1 : 0;
      is_within &= mine <= released % 10 + 3;
      ++released;
    });
    ASSERT_TRUE(made.ok());
    workers.push_back(std::move(*made));
    workers.back()->StartReading();
  }
  while (io_.Calls(Call::kRead).size() < 6) std::this_thread::yield();
  for (const auto& worker : workers) ASSERT_TRUE(worker->Load().ok());
  EXPECT_TRUE(is_within);
  EXPECT_EQ(released, 20u);
  EXPECT_EQ(io_.most_at_once(), 4u);
}

TEST_F(RivalsTest, DirectTellsWhatFailed) {
  const std::vector<std::string> files = Make({2 * kBlock, kBlock});
  io_.FailReadsOf("b");
  const auto worker = Value(DirectWorker::Make(&io_, files, {1, 2, kBlock, 4 * kBlock, 0}, 0, {}));
  worker->StartReading();
  EXPECT_EQ(worker->Load().error().message, "reading b: broken");
  EXPECT_TRUE(Has(DirectWorker::Make(&io_, files, {2, 2, kBlock, kBlock, 0}, 0, {}).error().message,
                  "--pool"));
}

TEST_F(RivalsTest, DirectStopsWhenItIsNotWanted) {
  const std::vector<std::string> files = Make({8 * kBlock});
  auto worker = Value(DirectWorker::Make(&io_, files, {1, 2, kBlock, 2 * kBlock, 0}, 0, {}));
  worker->StartReading();
  worker.reset();  // its readers wait for room: they end all the same
  EXPECT_LE(io_.Calls(Call::kRead).size(), 2u);
}

}  // namespace
}  // namespace ppc::bench
