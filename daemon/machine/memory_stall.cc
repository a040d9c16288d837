// SPDX-License-Identifier: Apache-2.0
#include "daemon/machine/memory_stall.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "daemon/base/clock.h"

namespace ppc {
namespace {

constexpr double kLeast = 1.0 / 8;

}  // namespace

MemoryStall::MemoryStall(const std::vector<std::string>& paths, double share) : share_(share) {
  for (const std::string& path : paths) {
    File file;
    file.fd.Reset(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    // With psi=0 on the kernel's command line the file exists but cannot be read.
    if (file.fd.IsValid() && ReadStallTotal(file.fd, &file.total_us))
      files_.push_back(std::move(file));
  }
}

bool ReadStallTotal(const UniqueFd& fd, uint64_t* us) {
  char buffer[256];
  const ssize_t got = pread(fd.Get(), buffer, sizeof(buffer), 0);
  if (got <= 0) return false;
  const std::string_view text(buffer, static_cast<size_t>(got));
  constexpr std::string_view kTotal = "total=";
  // "some" is the first line.
  const size_t at = text.starts_with("some ") ? text.find(kTotal) : std::string_view::npos;
  if (at == std::string_view::npos) return false;
  const char* first = text.data() + at + kTotal.size();
  return std::from_chars(first, text.data() + text.size(), *us).ec == std::errc();
}

double MemoryStall::Keep(uint64_t now_ns) {
  if (looked_ns_ != 0 && now_ns < looked_ns_ + kNsPerSec) return keep_;
  double worst = 0;
  for (File& file : files_) {
    uint64_t total_us = 0;
    if (!ReadStallTotal(file.fd, &total_us)) continue;
    if (looked_ns_ != 0 && total_us > file.total_us) {
      worst = std::max(worst, static_cast<double>(total_us - file.total_us) * 1000 /
                                  static_cast<double>(now_ns - looked_ns_));
    }
    file.total_us = total_us;
  }
  looked_ns_ = now_ns;
  if (worst > share_) {
    keep_ = std::max(keep_ / 2, kLeast);
  } else if (worst < share_ / 2) {
    keep_ = std::min(keep_ * 2, 1.0);
  }
  return keep_;
}

}  // namespace ppc
