// SPDX-License-Identifier: Apache-2.0
#include "daemon/exec/checkpoint_area.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace ppc {
namespace {

// A hole in the file of a full file system would end the process at the first store.
bool WriteZeros(int fd, size_t offset, size_t bytes) {
  static constexpr std::array<uint8_t, 16384> kZeros{};
  for (size_t done = 0; done < bytes;) {
    const ssize_t wrote = pwrite(fd, kZeros.data(), std::min(bytes - done, kZeros.size()),
                                 static_cast<off_t>(offset + done));
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return false;
    done += static_cast<size_t>(wrote);
  }
  return true;
}

}  // namespace

bool CheckpointArea::Entry::Is(const std::string& name) const {
  return bytes != 0 && name.size() < kIdBytes &&
         name == std::string(id.data(), strnlen(id.data(), kIdBytes));
}

Result<std::unique_ptr<CheckpointArea>> CheckpointArea::Open(UniqueFd file) {
  const std::string what = "checkpoints of services are not kept: ";
  struct stat st {};
  if (fstat(file.Get(), &st) != 0) return PosixError(what + "fstat", errno);
  if (!S_ISREG(st.st_mode)) return Error{EINVAL, what + "not a regular file"};
  const bool is_new = static_cast<size_t>(st.st_size) != kFileBytes;
  if (is_new && (ftruncate(file.Get(), 0) != 0 || ftruncate(file.Get(), kFileBytes) != 0)) {
    return PosixError(what + "ftruncate", errno);
  }
  if (is_new && !WriteZeros(file.Get(), 0, kTableBytes)) return PosixError(what + "write", errno);
  void* memory = mmap(nullptr, kFileBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.Get(), 0);
  if (memory == MAP_FAILED) return PosixError(what + "mmap", errno);
  return std::unique_ptr<CheckpointArea>(
      new CheckpointArea(std::move(file), static_cast<uint8_t*>(memory)));
}

CheckpointArea::~CheckpointArea() { munmap(memory_, kFileBytes); }

// The first is the mount's own.
CheckpointArea::Entry* CheckpointArea::Find(const std::string& id) {
  Entry* const entries = Entries();
  if (id.empty()) return entries;
  Entry* const found =
      std::find_if(entries + 1, entries + kRecords, [&](const Entry& e) { return e.Is(id); });
  return found == entries + kRecords ? nullptr : found;
}

// Rather than none one of a service that ended while no runner was there.
CheckpointArea::Entry* CheckpointArea::FindFree() {
  Entry* const entries = Entries();
  Entry* forgotten = nullptr;
  for (size_t i = 1; i < kRecords; ++i) {
    if (entries[i].bytes == 0) return &entries[i];
    if (!is_known_[i]) forgotten = &entries[i];
  }
  return forgotten;
}

size_t CheckpointArea::OffsetOf(const Entry* entry) {
  return kTableBytes + IndexOf(entry) * kMaxBytes;
}

bool CheckpointArea::Clear(const Entry* entry, size_t bytes) {
  return WriteZeros(file_.Get(), OffsetOf(entry), bytes);
}

// Its space waits for the next service: giving it back would be the file system's work.
void CheckpointArea::Free(Entry* entry) {
  entry->bytes = 0;
  is_known_[IndexOf(entry)] = false;
}

void CheckpointArea::Begin(const std::string& id, bool is_resumed) {
  Entry* const entry = Find(id);
  if (entry == nullptr) return;
  if (!is_resumed) return Free(entry);
  is_known_[IndexOf(entry)] = true;
}

void CheckpointArea::End(const std::string& id) {
  if (Entry* const entry = Find(id); entry != nullptr) Free(entry);
}

void* CheckpointArea::Record(const std::string& id, size_t bytes) {
  if (bytes == 0 || bytes > kMaxBytes || id.size() >= kIdBytes) return nullptr;
  Entry* entry = Find(id);
  if (entry == nullptr) entry = FindFree();
  if (entry == nullptr) return nullptr;
  if (entry->bytes != bytes || !(id.empty() || entry->Is(id))) {
    // Free until it is whole.
    entry->bytes = 0;
    if (!Clear(entry, bytes)) return nullptr;
    entry->id.fill('\0');
    std::copy(id.begin(), id.end(), entry->id.begin());
    entry->bytes = bytes;
  }
  if (fallocate(file_.Get(), 0, static_cast<off_t>(OffsetOf(entry)), static_cast<off_t>(bytes)) !=
          0 &&
      errno == ENOSPC) {
    return nullptr;
  }
  is_known_[IndexOf(entry)] = true;
  return memory_ + OffsetOf(entry);
}

}  // namespace ppc
