// SPDX-License-Identifier: Apache-2.0
#include "policies/maio/template/node_search.h"

#include <optional>

namespace ppc::maio {
namespace {

// Pages of no group before it is asked whose they are, and how often that is asked.
constexpr size_t kUnknownPages = 6;
constexpr size_t kMostUnknownPages = 64;

}  // namespace

void NodeSearch::NoteUnknown(const std::string& path, uint64_t page) {
  if (is_seeking_ || observed_.size() >= kMostUnknownPages) return;
  observed_.push_back({path, page});
  if (observed_.size() % kUnknownPages != 0) return;
  is_seeking_ = true;
  store_->FindNode(spec_, observed_,
                   [this, alive = std::weak_ptr<bool>(alive_)](std::optional<Template> own) {
                     if (alive.expired()) return;
                     if (!own) return GoOn();
                     found_(*std::move(own));
                   });
}

void NodeSearch::End() {
  is_seeking_ = false;
  observed_.assign(kMostUnknownPages, {});
}

}  // namespace ppc::maio
