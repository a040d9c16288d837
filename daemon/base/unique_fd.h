// SPDX-License-Identifier: Apache-2.0
// Owns UniqueFd: a file descriptor that closes itself.
#ifndef PPC_DAEMON_BASE_UNIQUE_FD_H_
#define PPC_DAEMON_BASE_UNIQUE_FD_H_

#include <unistd.h>

#include <utility>

namespace ppc {

class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.Release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) Reset(other.Release());
    return *this;
  }
  UniqueFd(const UniqueFd&) = delete;
  UniqueFd& operator=(const UniqueFd&) = delete;
  ~UniqueFd() { Reset(); }

  int Get() const { return fd_; }
  bool IsValid() const { return fd_ >= 0; }
  int Release() { return std::exchange(fd_, -1); }
  void Reset(int fd = -1) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = fd;
  }

 private:
  int fd_ = -1;
};

}  // namespace ppc

#endif  // PPC_DAEMON_BASE_UNIQUE_FD_H_
