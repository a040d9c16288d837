// SPDX-License-Identifier: Apache-2.0
// A directory with more files than are listed.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/unit/backend/observer_fixture.h"
#include "tests/unit/has.h"

namespace {
int opened_by_number = 0;  // calls of this process
}

// In place of the C library's.
extern "C" int open_by_handle_at(int mount, file_handle* handle, int flags) {
  ++opened_by_number;
  return static_cast<int>(syscall(SYS_open_by_handle_at, mount, handle, flags));
}

namespace ppc {
namespace {

constexpr int kFiles = 64;
constexpr uint64_t kFileBytes = 48 << 10;

class ObserverDiscoveredTest : public ClosedObserverTest {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(ClosedObserverTest::SetUp());
    struct statfs fs {};
    ASSERT_EQ(statfs(".", &fs), 0);
    constexpr long kExt4 = 0xef53;
    constexpr long kXfs = 0x58465342;
    if (fs.f_type != kExt4 && fs.f_type != kXfs)
      GTEST_SKIP() << "the build tree's file system opens no files by number";
    for (int i = 0; i < kFiles; ++i) Small("object-" + std::to_string(i));
    for (const auto& entry : std::filesystem::directory_iterator(dir_)) {
      const std::string name = entry.path().filename();
      if (name.starts_with("object-")) names_.push_back(name);
    }
    ASSERT_EQ(names_.size(), static_cast<size_t>(kFiles));
    Result<std::unique_ptr<ObserverBackend>> opened = ObserverBackend::Open(
        dir_, SysRoots{}, nullptr, ObserverFiles::Limits{.listed = 4, .in_kernel = 8});
    if (!opened) GTEST_SKIP() << opened.error().message;
    backend_ = std::move(*opened);
    ASSERT_TRUE(backend_->Attach({.progress = true}));
  }
  // As the directory has them, which is another order on each file system: the first ones are
  // listed.
  std::string Name(int number) const { return names_[static_cast<size_t>(number)]; }
  void Small(const std::string& name) const {
    const UniqueFd fd(open(Path(name).c_str(), O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, 0644));
    const std::vector<char> bytes(kFileBytes, 'x');
    ASSERT_EQ(write(fd.Get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    fsync(fd.Get());
    Drop(name);
  }
  // What is reported of a read by another process; 0: nothing.
  uint64_t Read(const std::string& name, uint64_t* missed = nullptr) {
    InChild([&] { ReadAll(name, 16 << 10); });
    const std::vector<Event> events = Events();
    if (missed != nullptr) *missed = Bytes(events, IsMissEvent);
    std::set<uint64_t> files;
    for (const Event& event : events) files.insert(event.file);
    EXPECT_LE(files.size(), 1u) << name;
    return files.empty() ? 0 : *files.begin();
  }
  // As the runtime does with a number that it does not know.
  std::string PathOf(uint64_t number) {
    std::string path;
    Result<FileInfo> info = backend_->Resolve(number, &path);
    // Another process has dropped all names in between.
    for (int i = 0; i < kFiles && !info && info.error().code == EAGAIN; ++i) {
      for (int file = 0; file < kFiles; ++file) (void)access(Path(Name(file)).c_str(), F_OK);
      info = backend_->Resolve(number, &path);
    }
    return info ? path : info.error().message;
  }
  std::vector<std::string> names_;
};

TEST_F(ObserverDiscoveredTest, AFileIsDiscoveredWithItsFirstMiss) {
  uint64_t missed = 0;
  const uint64_t number = Read(Name(50), &missed);
  EXPECT_TRUE(FileDiscovery::IsDiscovered(number));
  EXPECT_EQ(missed, kFileBytes);
  EXPECT_EQ(PathOf(number), Name(50));
  // It is listed now: positions are told, too.
  EXPECT_EQ(Read(Name(50), &missed), number);
  EXPECT_EQ(missed, 0u);
  const FileInfo found = Value(backend_->Lookup(Name(50)));
  EXPECT_EQ(found.file, number);
  EXPECT_EQ(found.size, kFileBytes);
}

// A look-up by number for each of very many files would be too slow.
TEST_F(ObserverDiscoveredTest, FewFilesOpenedByNumberNameAllOfTheirDirectory) {
  std::filesystem::create_directory(Path("folder"));
  std::set<std::string> expected;
  for (int i = 0; i < 40; ++i) {
    const std::string name = "folder/file-" + std::to_string(i);
    Small(name);
    expected.insert(name);
  }
  InChild([&] {
    for (const std::string& name : expected) ReadAll(name, kFileBytes);
  });
  std::set<uint64_t> numbers;
  for (const Event& event : Events()) numbers.insert(event.file);
  ASSERT_EQ(numbers.size(), expected.size());
  opened_by_number = 0;
  std::set<std::string> found;
  for (const uint64_t number : numbers) found.insert(PathOf(number));
  EXPECT_EQ(found, expected);
  EXPECT_LE(opened_by_number, 4) << "the first, and any that share a place";
}

TEST_F(ObserverDiscoveredTest, AFileInARenamedDirectoryIsFoundAgain) {
  std::filesystem::create_directory(Path("folder"));
  Small("folder/one");
  Small("folder/two");
  const uint64_t one = Read("folder/one");
  ASSERT_EQ(PathOf(one), "folder/one");
  std::filesystem::rename(Path("folder"), Path("renamed"));
  const uint64_t two = Read("renamed/two");
  EXPECT_EQ(PathOf(two), "renamed/two");
  EXPECT_EQ(PathOf(one), "renamed/one");
}

TEST_F(ObserverDiscoveredTest, WhatIsLoadedByItsNumberIsSeenWhenItIsRead) {
  std::vector<uint64_t> numbers;
  for (int i = 20; i < 40; ++i) {
    numbers.push_back(Read(Name(i)));
    ASSERT_EQ(PathOf(numbers.back()), Name(i));
    Drop(Name(i));
  }
  // The kernel's list has eight: this one is not on it any more.
  const LoadResult loaded = Value(
      backend_->Load({.file = numbers[0], .offset = 0, .length = kFileBytes, .is_small = true}));
  EXPECT_EQ(loaded.loaded, kFileBytes);
  EXPECT_EQ(Cached(Name(20)), kFileBytes);
  uint64_t missed = 0;
  EXPECT_EQ(Read(Name(20), &missed), numbers[0]);
  EXPECT_EQ(missed, 0u);
  const EvictResult gone = Value(
      backend_->Evict({.file = numbers[0], .offset = 0, .length = kFileBytes, .unmap = true}));
  EXPECT_EQ(gone.dropped, kFileBytes);
  EXPECT_EQ(Cached(Name(20)), 0u);
  // And discovered again it is the same file.
  EXPECT_EQ(Read(Name(30)), numbers[10]);
}

TEST_F(ObserverDiscoveredTest, AStrangersPagesStay) {
  const uint64_t number = Read(Name(50));
  ASSERT_EQ(PathOf(number), Name(50));
  Drop(Name(50));
  const EvictRequest all{.file = number, .offset = 0, .length = kFileBytes, .unmap = true};
  ASSERT_TRUE(backend_->Evict(all));  // nothing of it is ours any more
  ReadAll(Name(50), 16 << 10);        // by this process, which is not reported
  EXPECT_EQ(backend_->Evict(all)->dropped, 0u);
  EXPECT_EQ(Cached(Name(50)), kFileBytes);
}

TEST_F(ObserverDiscoveredTest, AFileOutsideIsNotTold) {
  const std::string name = "../" + std::filesystem::path(dir_).filename().string() + "-outside";
  Small(name);
  InChild([&] { ReadAll(name, 4096); });
  EXPECT_TRUE(Events().empty());
  std::filesystem::remove(Path(name));
}

TEST_F(ObserverDiscoveredTest, AFileThatIsGoneIsStale) {
  const uint64_t number = Read(Name(50));
  ASSERT_EQ(PathOf(number), Name(50));
  ASSERT_EQ(unlink(Path(Name(50)).c_str()), 0);
  ExpectError(backend_->Load({.file = number, .offset = 0, .length = kFileBytes}), ESTALE);
  EXPECT_EQ(backend_->Resolve(number, nullptr).error().code, ESTALE);
  // Its inode's number may be used again.
  Small("another");
  const uint64_t next = Read("another");
  EXPECT_NE(next, number);
  EXPECT_EQ(PathOf(next), "another");
}

TEST_F(ObserverDiscoveredTest, ARenamedFileKeepsItsNumber) {
  const uint64_t number = Read(Name(50));
  ASSERT_EQ(PathOf(number), Name(50));
  std::filesystem::create_directory(Path("folder"));
  ASSERT_EQ(rename(Path(Name(50)).c_str(), Path("folder/elsewhere").c_str()), 0);
  EXPECT_EQ(PathOf(number), "folder/elsewhere");
}

}  // namespace
}  // namespace ppc
