// SPDX-License-Identifier: Apache-2.0
//
// Looks up what of packages was left for later, some at a time: the service loads
// those that are known, and others start meanwhile.
#ifndef POLICIES_MAIO_FOLLOW_LOOKUP_QUEUE_H_
#define POLICIES_MAIO_FOLLOW_LOOKUP_QUEUE_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <span>

#include "policies/maio/base/background.h"
#include "policies/maio/base/file_lookup.h"
#include "policies/maio/follow/tables.h"
#include "ppc.h"

namespace ppc::maio {

class LookupQueue {
 public:
  // Takes those that come next; false: nobody wants the rest.
  using Learn = std::function<bool(std::span<const FileLookup>)>;

  // on_end: all are looked up.
  LookupQueue(const ppc_context* context, Background background, Learn learn,
              std::function<void()> on_end)
      : context_(context),
        background_(std::move(background)),
        learn_(std::move(learn)),
        on_end_(std::move(on_end)) {}

  // In place of what is being looked up.
  void Begin(DeferredFiles deferred);
  void End() { deferred_.reset(); }
  bool has_ended() const { return deferred_ == nullptr; }

 private:
  void From(size_t first);

  const ppc_context* const context_;
  const Background background_;
  const Learn learn_;
  const std::function<void()> on_end_;
  std::shared_ptr<const DeferredFiles> deferred_;               // nullptr: nothing is
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // expires with this object
};

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_FOLLOW_LOOKUP_QUEUE_H_
