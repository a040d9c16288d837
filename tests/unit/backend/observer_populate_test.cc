// SPDX-License-Identifier: Apache-2.0
// Loads for a service that populates its mappings.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <optional>
#include <string>

#include "tests/unit/backend/observer_fixture.h"

namespace ppc {
namespace {

// Pages of the file that the kernel holds for used, by /proc/kpageflags; nullopt: it does not tell.
std::optional<uint64_t> UsedPages(const std::string& path, uint64_t bytes) {
  constexpr uint64_t kUsed = 1 << 2 | 1 << 6;  // referenced, active
  constexpr uint64_t kPfn = (uint64_t{1} << 55) - 1;
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const UniqueFd pagemap(open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
  const UniqueFd flags(open("/proc/kpageflags", O_RDONLY | O_CLOEXEC));
  // A fault marks nothing before the mapping goes; MAP_POPULATE does.
  void* const at = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd.Get(), 0);
  std::optional<uint64_t> used = 0;
  for (uint64_t page = 0; used && page < bytes / kPageBytes; ++page) {
    const uint64_t number = reinterpret_cast<uintptr_t>(at) / kPageBytes + page;
    (void)static_cast<volatile char*>(at)[page * kPageBytes];
    uint64_t entry = 0;
    uint64_t seen = 0;
    const bool is_told = pread(pagemap.Get(), &entry, 8, static_cast<off_t>(number * 8)) == 8 &&
                         (entry & kPfn) != 0 &&
                         pread(flags.Get(), &seen, 8, static_cast<off_t>((entry & kPfn) * 8)) == 8;
    if (!is_told) used.reset();
    if (is_told && (seen & kUsed) != 0) ++*used;
  }
  munmap(at, bytes);
  return used;
}

// Natively a populate marks what it maps, and reclaim takes such pages last.
TEST_F(ObserverTest, LoadsForAPopulateLookUsed) {
  if (!Open()) GTEST_SKIP() << why_not_;
  const Result<FileInfo> file = backend_->Lookup("model");
  uint64_t used[2] = {};
  for (const bool is_populated : {false, true}) {
    Drop("model");
    ASSERT_TRUE(
        backend_->Load({.file = file->file, .length = 2 * kMiB, .is_populated = is_populated}));
    const std::optional<uint64_t> pages = UsedPages(Path("model"), 2 * kMiB);
    if (!pages) GTEST_SKIP() << "this kernel does not tell a page's flags";
    used[is_populated] = *pages;
  }
  EXPECT_LT(used[0], 2 * kMiB / kPageBytes / 2);
  // A page that waits in a CPU's batch shows neither flag.
  EXPECT_GT(used[1], 2 * kMiB / kPageBytes / 8 * 7);
}

}  // namespace
}  // namespace ppc
