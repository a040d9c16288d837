// SPDX-License-Identifier: Apache-2.0
#include "daemon/backend/observer/executables.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "daemon/base/unique_fd.h"

namespace ppc {

Result<Executable> Executables::At(const std::string& path) const {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat info {};
  if (!fd.IsValid() || fstat(fd.Get(), &info) != 0) return PosixError("open " + path, errno);
  if (!S_ISREG(info.st_mode)) return Error{EINVAL, path + " is no file"};
  const dev_t dev = info.st_dev;
  if (!programs_->CanLearn()) return Executable{info.st_ino, (major(dev) << 20) | minor(dev)};
  void* const at = mmap(nullptr, kPageBytes, PROT_READ, MAP_SHARED, fd.Get(), 0);
  if (at == MAP_FAILED) return PosixError("map " + path, errno);
  const Result<std::vector<obs_vma>> seen = programs_->OwnMappings();
  munmap(at, kPageBytes);
  if (!seen) return seen.error();
  const auto found = std::ranges::find(*seen, reinterpret_cast<uintptr_t>(at), &obs_vma::start);
  if (found == seen->end()) return Error{ENOENT, path + " is in no page cache"};
  return Executable{found->ino, found->dev};
}

void Executables::Watch(std::span<const Executable> files) {
  const std::set<Executable> wanted(files.begin(), files.end());
  for (const Executable& old : watched_) {
    if (!wanted.contains(old)) programs_->RemoveExecutable(old.ino, old.dev);
  }
  for (const Executable& fresh : wanted) {
    if (!watched_.contains(fresh)) (void)programs_->AddExecutable(fresh.ino, fresh.dev);
  }
  watched_ = wanted;
  // An attached program costs time at every exec on the machine.
  programs_->WantExecs(!watched_.empty());
}

}  // namespace ppc
