// SPDX-License-Identifier: Apache-2.0
#include "daemon/supervisor/observer_hub.h"

#include <sys/epoll.h>

#include <utility>

#include "daemon/base/log.h"

namespace ppc::control {

ObserverHub::~ObserverHub() { Unload(); }

Result<std::unique_ptr<ObserverHub::Client>> ObserverHub::Enter() {
  if (set_ == nullptr) {
    Result<std::unique_ptr<ObserverProgramSet>> set = ObserverProgramSet::Load(roots_);
    if (!set) return set.error();
    const Status watched = loop_.Watch((*set)->WakeFd(), EPOLLIN, [this](uint32_t) {
      const Status updated = set_->Update();
      if (!updated) Log(LogLevel::kWarning, updated.error().message);
    });
    if (!watched) return watched.error();
    set_ = std::move(*set);
  }
  const Result<uint32_t> dir = set_->AddDirectory();
  if (dir) return std::make_unique<Client>(*this, *dir);
  if (set_->IsEmpty()) Unload();
  return dir.error();
}

void ObserverHub::Leave(uint32_t dir) {
  set_->RemoveDirectory(dir);
  if (set_->IsEmpty()) Unload();
}

void ObserverHub::Unload() {
  if (set_ == nullptr) return;
  loop_.Unwatch(set_->WakeFd());
  set_.reset();
}

}  // namespace ppc::control
