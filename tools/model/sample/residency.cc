// SPDX-License-Identifier: Apache-2.0
// Which parts of files lie in the page cache, by mincore on mappings that are never touched.
// Threads: one.
#include "tools/model/sample/residency.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "daemon/base/unique_fd.h"

namespace ppc::bench {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kResidentPageBytes = 4096;
constexpr uint64_t kPagesPerCall = 4096;

}  // namespace

Result<MappedFile> MappedFile::Open(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.IsValid()) return PosixError(path, errno);
  struct stat info {};
  if (::fstat(fd.Get(), &info) != 0) return PosixError(path, errno);
  if (info.st_size == 0) return Error{ENODATA, path + ": empty"};
  const auto bytes = static_cast<uint64_t>(info.st_size);
  void* map = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd.Get(), 0);
  if (map == MAP_FAILED) return PosixError("mapping " + path, errno);
  return MappedFile(map, bytes);
}

MappedFile::~MappedFile() {
  if (map_ != nullptr) ::munmap(map_, bytes_);
}

uint64_t MappedFile::pages() const {
  return (bytes_ + kResidentPageBytes - 1) / kResidentPageBytes;
}

uint64_t MappedFile::Resident(uint64_t first, uint64_t count) const {
  unsigned char state[kPagesPerCall];
  uint64_t resident = 0;
  const uint64_t end = std::min(first + count, pages());
  while (first < end) {
    const uint64_t now = std::min(end - first, kPagesPerCall);
    if (::mincore(static_cast<char*>(map_) + first * kResidentPageBytes, now * kResidentPageBytes,
                  state) != 0)
      return resident;
    for (uint64_t i = 0; i < now; ++i) resident += state[i] & 1;
    first += now;
  }
  return resident;
}

std::string MappedFile::Digits(uint32_t buckets, uint32_t per_bucket) const {
  std::string digits;
  for (uint64_t bucket = 0; bucket < buckets; ++bucket) {
    const uint64_t begin = pages() * bucket / buckets;
    const uint64_t end = std::max(begin + 1, pages() * (bucket + 1) / buckets);
    const uint64_t count = std::min<uint64_t>(per_bucket, end - begin);
    const uint64_t first = begin + (end - begin - count) / 2;
    const uint64_t resident = Resident(first, count);
    digits += static_cast<char>('0' + resident * per_bucket / count);
  }
  return digits;
}

Result<std::vector<std::pair<std::string, MappedFile>>> MapDirectory(const std::string& dir) {
  std::vector<std::string> names;
  std::error_code code;
  for (fs::directory_iterator it(dir, code), end; !code && it != end; it.increment(code)) {
    std::error_code stat_code;
    if (it->is_regular_file(stat_code) && it->file_size(stat_code) > 0)
      names.push_back(it->path().filename().string());
  }
  if (code) return Error{code.value(), dir + ": " + code.message()};
  std::sort(names.begin(), names.end());
  std::vector<std::pair<std::string, MappedFile>> files;
  for (const std::string& name : names) {
    Result<MappedFile> file = MappedFile::Open((fs::path(dir) / name).string());
    if (!file.ok()) return file.error();
    files.emplace_back(name, std::move(*file));
  }
  return files;
}

}  // namespace ppc::bench
