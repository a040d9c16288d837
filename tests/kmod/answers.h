// SPDX-License-Identifier: Apache-2.0
// ppc-answers: what its questions share, and the questions, by the file they are in.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

namespace ppc::test {

// An open file, closed at the end.
class Fd {
 public:
  Fd(const std::string& path, int flags) : fd_(open(path.c_str(), flags | O_CLOEXEC, 0600)) {}
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() {
    if (fd_ >= 0) close(fd_);
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  int get() const { return fd_; }
  bool ok() const { return fd_ >= 0; }

 private:
  int fd_;
};

inline const char* Error(bool failed) { return failed ? strerrorname_np(errno) : "ok"; }

inline void Say(const char* what, bool failed) { std::printf("%s %s\n", what, Error(failed)); }

inline uint64_t Hash(const void* data, size_t bytes, uint64_t hash = 14695981039346656037ULL) {
  const auto* at = static_cast<const unsigned char*>(data);
  for (size_t i = 0; i < bytes; ++i) hash = (hash ^ at[i]) * 1099511628211ULL;
  return hash;
}

// Each prints its answers; the status of the program.
using Ask = int(const std::string& path, const std::string& argument);

// answers_metadata.cc
Ask Statx, MountId, Attributes, Ioctls, Directory, NameToHandle, OpenHandle, Locks, Leases;
// answers_data.cc
Ask Fiemap, Seek, Source, CopyRange, Cached, Seals, Async;

}  // namespace ppc::test
