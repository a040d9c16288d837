// SPDX-License-Identifier: Apache-2.0
#include "daemon/backend/factory.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "daemon/backend/kmod/kmod_backend.h"
#include "daemon/backend/observer/observer_backend.h"
#include "daemon/machine/directory.h"

namespace ppc {
namespace {

using Opened = Result<std::unique_ptr<Backend>>;

template <typename T>
Opened Upcast(Result<std::unique_ptr<T>> backend) {
  if (!backend) return backend.error();
  return Opened(std::move(*backend));
}

Opened OpenObserver(const std::string& dir, const SysRoots& roots, LentPrograms lent) {
  if (lent.fds.empty()) return Upcast(ObserverBackend::Open(dir, roots));
  ObserverFds fds;
  if (lent.fds.size() != fds.size()) return Error{EINVAL, "ppcd and ppc-runner differ in version"};
  std::move(lent.fds.begin(), lent.fds.end(), fds.begin());
  auto programs = ObserverPrograms::Adopt(std::move(fds), lent.dir);
  if (!programs) return programs.error();
  return Upcast(ObserverBackend::Open(dir, roots, std::move(*programs)));
}

// What works without the module, on a directory as it is.
Opened OpenPlain(BackendKind kind, const std::string& dir, const SysRoots& roots,
                 LentPrograms lent) {
  const Result<Directory> directory = FindDirectory(dir, roots, DirectoryWalk::kWait);
  if (!directory) return directory.error();
  if (kind == BackendKind::kPoll) return OpenPolling(dir, roots);
  Opened observer = OpenObserver(dir, roots, std::move(lent));
  if (observer || kind == BackendKind::kObserver) return observer;
  Opened poll = OpenPolling(dir, roots);
  return poll ? std::move(poll) : std::move(observer);
}

}  // namespace

Opened OpenBackend(BackendKind kind, const std::string& dir, const SysRoots& roots,
                   LentPrograms lent, const std::string& device) {
  const Result<UpcMount> mount = FindUpcMount(dir, roots.sys);
  if (!device.empty() && (!mount || mount->device != device)) {
    return Error{ENODEV, dir + " is " + (mount ? mount->device : "no ppc mount") +
                             " now; it was registered as " + device};
  }
  if (kind == BackendKind::kKmod || (kind == BackendKind::kAuto && mount)) {
    if (!mount) return mount.error();
    return Upcast(KmodBackend::Open(dir, *mount));
  }
  if (mount) {
    return Error{EINVAL, dir + " is a ppc mount, which the module serves; use --backend kmod, or " +
                             "name the directory below it"};
  }
  return OpenPlain(kind, dir, roots, std::move(lent));
}

}  // namespace ppc
