// SPDX-License-Identifier: Apache-2.0
//
// A service whose template other nodes use and make, too: what it finds in the store, and whose
// part it reads when the nodes have changed places.
#include <memory>
#include <optional>
#include <utility>

#include "policies/maio/service.h"

namespace ppc::maio {
namespace {

// Pages of no group before it is asked whose they are, and how often that is asked.
constexpr size_t kUnknownPages = 6;
constexpr size_t kMostUnknownPages = 64;

}  // namespace

void Service::FetchNewer() {
  if (fetch_newer_) FetchShared(*std::exchange(fetch_newer_, std::nullopt));
}

void Service::FetchShared(uint64_t known_ns) {
  if (!shared_->IsFor(run_.spec)) return;
  shared_->Fetch(run_.spec, known_ns, [this, alive = std::weak_ptr<bool>(alive_)](bool changed) {
    if (changed && !alive.expired()) Fetched();
  });
}

// Used at once if nothing was read yet; else the next start uses it.
void Service::Fetched() {
  if (run_.last_event_ns != 0 || (mode_ != Mode::kRecord && mode_ != Mode::kUse)) return;
  if (following_ != nullptr) following_->End();
  following_.reset();
  recording_.reset();
  mode_ = Mode::kStarting;
  is_fetched_ = true;
  Prepare();
}

// Workers that are none of this node's when the template was recorded: the nodes have changed
// places.
void Service::NoteUnknown(const std::string& path, uint64_t page) {
  if (seeks_node_ || observed_.size() >= kMostUnknownPages) return;
  observed_.push_back({path, page});
  if (observed_.size() % kUnknownPages != 0) return;
  seeks_node_ = true;
  shared_->FindNode(run_.spec, observed_,
                    [this, alive = std::weak_ptr<bool>(alive_)](std::optional<Template> own) {
                      if (alive.expired()) return;
                      seeks_node_ = false;
                      if (own && follows()) FollowOtherNode(std::move(*own));
                    });
}

void Service::FollowOtherNode(Template t) {
  auto own = std::make_shared<Template>(std::move(t));
  auto result = std::make_shared<Preparation>();
  auto preparer = std::make_shared<Preparer>(run_.context, run_.config, run_.spec, run_.Memory(),
                                             run_.is_awaited || run_.spec.is_resumed);
  seeks_node_ = true;
  background_(
      [own, result, preparer, cookie = run_.cookie(), nonce = run_.NextNonce()] {
        preparer->PrepareFrom(std::move(*own));
        *result = preparer->Finish(cookie, nonce);
      },
      [this, result, alive = std::weak_ptr<bool>(alive_)] {
        if (alive.expired()) return;
        seeks_node_ = false;
        if (!result->followed || !follows()) return;
        following_->End();
        stale_files_ = result->stale_files;
        Follow(result.get());
        *result = Preparation();
        observed_.assign(kMostUnknownPages, {});  // once
        reason_ += ", as another node of the recording";
        run_.Log(PPC_LOG_INFO, "maio: service " + id() + ": reads as another node did");
      });
}

}  // namespace ppc::maio
