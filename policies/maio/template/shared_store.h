// SPDX-License-Identifier: Apache-2.0
//
// The store that several nodes share, seen from a service: what lies in the local directory is used
// at once, and the runtime's thread for remote work brings it and the store together.  No hook
// waits for a store; one that fails is one warning, until it works again.
#ifndef POLICIES_MAIO_TEMPLATE_SHARED_STORE_H_
#define POLICIES_MAIO_TEMPLATE_SHARED_STORE_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "policies/maio/base/config.h"
#include "policies/maio/template/store.h"
#include "policies/maio/template/template.h"

struct ppc_context;

namespace ppc::maio {

class SharedStore {
 public:
  // Policy::BackgroundRemote.
  using Background = std::function<int(std::function<void()> work, std::function<void()> done)>;

  SharedStore(const ppc_context* context, Background background);
  // False, with *error: the configuration names no store that can be.
  bool Open(const Config& config, std::string* error);

  // Whether a service has anything to do with a store: one is configured, or it is on several nodes
  // (then the local directory is the store, unless one is configured).
  bool IsFor(const ServiceSpec& spec) const { return work_->is_configured || spec.nodes > 1; }

  // Brings a newer template of the store than the one of known_ns into the local directory, and
  // what this node recorded into a store that has none or an older one; then calls done(changed)
  // as a hook.
  void Fetch(const ServiceSpec& spec, uint64_t known_ns, std::function<void(bool changed)> done);
  // Puts what was recorded, of several nodes as this one's part, and merges when all are there.
  void Push(const ServiceSpec& spec, Template t);
  // The one in the store fitted badly: whoever starts next is to record anew.
  void MarkBad(const ServiceSpec& spec);

 private:
  // Of the remote thread alone, once it is open.
  struct Work {
    const ppc_context* context = nullptr;
    bool is_configured = false;
    std::unique_ptr<TemplateStore> store;
    std::optional<StoreKey> key;
    std::string local;  // directory
    bool has_failed = false;

    const StoreKey* Key() const { return key ? &*key : nullptr; }
    bool Fetch(const ServiceSpec& spec, uint64_t known_ns);
    int PutLate(const ServiceSpec& spec, uint64_t store_ns, std::string* error);
    int Push(const ServiceSpec& spec, Template* t, std::string* error);
    int Replace(const std::string& name, Template* t, std::string* error);
    int MarkBad(const std::string& name, std::string* error);
    int Merge(const ServiceSpec& spec, Template* whole, std::string* error);
    void Report(int code, const std::string& error);
  };

  Background background_;
  std::shared_ptr<Work> work_;
};

// Keeps this node's groups of a whole template and what belongs to no worker, with this node's own
// numbers.  False: it has none of this node, and is as it was.
bool TakeOwnGroups(const ServiceSpec& spec, Template* t);
// The numbers that groups have in the template of all nodes.
void GiveWholeNumbers(const ServiceSpec& spec, Template* t);

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_TEMPLATE_SHARED_STORE_H_
