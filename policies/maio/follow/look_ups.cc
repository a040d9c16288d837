// SPDX-License-Identifier: Apache-2.0
#include "policies/maio/follow/look_ups.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "policies/maio/base/tuning.h"
#include "policies/maio/follow/directories.h"

namespace ppc::maio {

void LookUps::Begin(Later later) {
  later_ = std::make_shared<Later>(std::move(later));
  From(0);
}

void LookUps::From(size_t first) {
  const std::shared_ptr<const Later> later = later_;
  const auto rest = std::span(later->files).subspan(first);
  if (rest.empty()) {
    later_.reset();
    if (!later->directories.empty())
      background_([context = context_, later] { ReadDirectories(context, later->directories); },
                  [] {});
    return on_end_();
  }
  const auto some = rest.first(std::min(rest.size(), kLookUpsNext));
  auto found = std::make_shared<std::vector<LookedUp>>();
  background_(
      [context = context_, later, some, found] { *found = LookUp(context, some); },
      [this, later, some, end = first + some.size(), found, alive = std::weak_ptr<bool>(alive_)] {
        if (alive.expired() || later_ != later) return;
        found->resize(some.size());  // where that failed
        if (learn_(*found)) From(end);
      });
}

}  // namespace ppc::maio
