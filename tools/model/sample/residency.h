// SPDX-License-Identifier: Apache-2.0
// Which parts of files lie in the page cache, by mincore on mappings that are never touched.
// Threads: one.
#ifndef PPC_TOOLS_MODEL_SAMPLE_RESIDENCY_H_
#define PPC_TOOLS_MODEL_SAMPLE_RESIDENCY_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "daemon/base/result.h"

namespace ppc::bench {

class MappedFile {
 public:
  static Result<MappedFile> Open(const std::string& path);
  MappedFile(MappedFile&& other) noexcept
      : map_(std::exchange(other.map_, nullptr)), bytes_(other.bytes_) {}
  MappedFile& operator=(MappedFile&&) = delete;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  uint64_t bytes() const { return bytes_; }
  uint64_t pages() const;
  // Resident pages among `count` from page `first` on.
  uint64_t Resident(uint64_t first, uint64_t count) const;
  // One digit per bucket, '0' to '9': how many of `per_bucket` (1 to 9) neighbouring pages in the
  // middle of that part of the file are resident.  A bucket narrower than that counts what it has.
  std::string Digits(uint32_t buckets, uint32_t per_bucket) const;

 private:
  MappedFile(void* map, uint64_t bytes) : map_(map), bytes_(bytes) {}
  void* map_;
  uint64_t bytes_;
};

// Regular files of a directory (symlinks followed) that are not empty, sorted by name.
Result<std::vector<std::pair<std::string, MappedFile>>> MapDirectory(const std::string& dir);

}  // namespace ppc::bench

#endif  // PPC_TOOLS_MODEL_SAMPLE_RESIDENCY_H_
