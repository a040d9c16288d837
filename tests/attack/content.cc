// SPDX-License-Identifier: Apache-2.0
// Files whose every byte is known without having been stored.
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "attack.h"

namespace ppc::attack {

namespace {

uint64_t WordAt(uint64_t seed, uint64_t offset) {
  uint64_t z = seed * 0x9e3779b97f4a7c15 + (offset >> 3);
  z = (z ^ (z >> 31)) * 0xbf58476d1ce4e5b9;
  return z ^ (z >> 29);
}

thread_local sigjmp_buf sigbus_return;
thread_local volatile sig_atomic_t sigbus_expected;

void OnSigbus(int) {
  if (sigbus_expected) siglongjmp(sigbus_return, 1);
  signal(SIGBUS, SIG_DFL);
}

}  // namespace

void Fill(uint64_t seed, uint64_t offset, std::span<std::byte> data) {
  for (size_t at = 0; at < data.size(); at += 8) {
    const uint64_t word = WordAt(seed, offset + at);
    std::memcpy(data.data() + at, &word, std::min<size_t>(8, data.size() - at));
  }
}

bool Right(uint64_t seed, uint64_t offset, std::span<const std::byte> data) {
  for (size_t at = 0; at < data.size(); at += 8) {
    const uint64_t word = WordAt(seed, offset + at);
    if (std::memcmp(data.data() + at, &word, std::min<size_t>(8, data.size() - at)) != 0) {
      return false;
    }
  }
  return true;
}

int MakeFile(const std::string& path, uint64_t bytes, uint64_t seed) {
  const Fd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!fd) return errno;
  std::vector<std::byte> buffer(1 << 20);
  for (uint64_t at = 0; at < bytes;) {
    const size_t n = std::min<uint64_t>(buffer.size(), bytes - at);
    Fill(seed, at, {buffer.data(), n});
    if (write(fd.get(), buffer.data(), n) != static_cast<ssize_t>(n)) return errno ? errno : ENOSPC;
    at += n;
  }
  return fsync(fd.get()) ? errno : 0;
}

Verdict CheckRead(int fd, uint64_t seed, uint64_t offset, size_t bytes) {
  thread_local std::vector<std::byte> buffer;
  buffer.resize(bytes);
  errno = 0;
  const ssize_t n = pread(fd, buffer.data(), bytes, static_cast<off_t>(offset));
  if (n < 0) return Verdict::kError;
  if (!Right(seed, offset, {buffer.data(), static_cast<size_t>(n)})) return Verdict::kWrong;
  return static_cast<size_t>(n) == bytes ? Verdict::kRight : Verdict::kShort;
}

Verdict CheckMapped(const std::byte* map, uint64_t seed, uint64_t offset, size_t bytes) {
  // Values changed between the two returns of sigsetjmp() would be lost: there are none.
  if (sigsetjmp(sigbus_return, 1)) {
    sigbus_expected = 0;
    errno = EFAULT;
    return Verdict::kError;
  }
  sigbus_expected = 1;
  const bool right = Right(seed, offset, {map + offset, bytes});
  sigbus_expected = 0;
  return right ? Verdict::kRight : Verdict::kWrong;
}

void CatchSigbus() {
  struct sigaction action {};
  action.sa_handler = OnSigbus;
  action.sa_flags = SA_NODEFER;
  sigaction(SIGBUS, &action, nullptr);
}

uint64_t SeedOfName(const std::string& name) {
  const size_t slash = name.rfind('/');
  return std::strtoull(name.c_str() + (slash == std::string::npos ? 0 : slash + 1) + 1, nullptr,
                       10);
}

}  // namespace ppc::attack
