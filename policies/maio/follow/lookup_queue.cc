// SPDX-License-Identifier: Apache-2.0
#include "policies/maio/follow/lookup_queue.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "policies/maio/base/tuning.h"
#include "policies/maio/follow/directories.h"

namespace ppc::maio {

void LookupQueue::Begin(DeferredFiles deferred) {
  deferred_ = std::make_shared<DeferredFiles>(std::move(deferred));
  From(0);
}

void LookupQueue::From(size_t first) {
  const std::shared_ptr<const DeferredFiles> deferred = deferred_;
  const auto rest = std::span(deferred->files).subspan(first);
  if (rest.empty()) {
    deferred_.reset();
    if (!deferred->directories.empty())
      background_(
          [context = context_, deferred] { ReadDirectories(context, deferred->directories); },
          [] {});
    return on_end_();
  }
  const auto some = rest.first(std::min(rest.size(), kLookUpsNext));
  auto found = std::make_shared<std::vector<FileLookup>>();
  background_([context = context_, deferred, some, found] { *found = LookUp(context, some); },
              [this, deferred, some, end = first + some.size(), found,
               alive = std::weak_ptr<bool>(alive_)] {
                if (alive.expired() || deferred_ != deferred) return;
                found->resize(some.size());  // where that failed
                if (learn_(*found)) From(end);
              });
}

}  // namespace ppc::maio
