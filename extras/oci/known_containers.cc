// SPDX-License-Identifier: Apache-2.0
#include "extras/oci/known_containers.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "daemon/base/clock.h"
#include "daemon/base/files.h"
#include "daemon/base/json.h"
#include "daemon/machine/proc_info.h"

namespace ppc::oci {
namespace {

namespace fs = std::filesystem;

constexpr int kLockPeriodMs = 5;

std::optional<ContainerNote> Read(const fs::path& file) {
  const Result<std::string> text = ReadFile(file);
  const Result<Json> note = text ? ParseJsonObject(*text, file) : Result<Json>(text.error());
  if (!note) return std::nullopt;
  const Result<std::string> mount = JsonString(*note, "mount", "");
  const Result<std::string> id = JsonString(*note, "service_id", "");
  const Result<int64_t> pid = JsonInt(*note, "pid", 0);
  const Result<int64_t> start = JsonInt(*note, "start_ns", 0);
  if (!mount || !id || !pid || !start) return std::nullopt;
  return ContainerNote{*mount, *id, static_cast<int>(*pid), static_cast<uint64_t>(*start)};
}

}  // namespace

Result<KnownContainers> KnownContainers::Open(const std::string& directory, const SysRoots& roots,
                                              unsigned timeout_ms) {
  if (mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) return PosixError(directory, errno);
  UniqueFd lock(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!lock.IsValid()) return PosixError(directory, errno);
  const uint64_t deadline = MonotonicNs() + timeout_ms * kNsPerMs;
  while (flock(lock.Get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return PosixError(directory, errno);
    if (MonotonicNs() >= deadline)
      return PosixError(directory + " is locked by another hook", ETIMEDOUT);
    poll(nullptr, 0, kLockPeriodMs);
  }
  return KnownContainers(directory, roots, std::move(lock));
}

void KnownContainers::DropDead() const {
  std::error_code error;
  for (fs::directory_iterator entry(directory_, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    const std::optional<ContainerNote> known = Read(entry->path());
    if (!known || !IsSameProcess(roots_, known->pid, known->start_ns)) {
      unlink(entry->path().c_str());
    }
  }
}

Status KnownContainers::Note(const std::string& container, ContainerNote known) {
  unlink((directory_ + "/" + container).c_str());
  DropDead();
  known.start_ns = ProcessStartNs(roots_, known.pid).value_or(0);
  if (known.start_ns == 0) {
    return Error{ESRCH, "there is no process " + std::to_string(known.pid) + " here"};
  }
  const std::string note = DumpJson({{"mount", known.mount},
                                     {"service_id", known.service_id},
                                     {"pid", known.pid},
                                     {"start_ns", known.start_ns}});
  const std::string file = directory_ + "/" + container;
  UniqueFd out(open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!out.IsValid()) return PosixError(file, errno);
  return WriteAll(out.Get(), note.data(), note.size());
}

std::optional<ContainerNote> KnownContainers::Forget(const std::string& container) {
  const std::string file = directory_ + "/" + container;
  std::optional<ContainerNote> known = Read(file);
  unlink(file.c_str());
  return known;
}

}  // namespace ppc::oci
