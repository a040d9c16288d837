// SPDX-License-Identifier: Apache-2.0
#include "policies/maio/template/node_search.h"

#include <algorithm>
#include <map>
#include <utility>

#include "policies/maio/template/shared_store.h"

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
  auto own = std::make_shared<std::optional<Template>>();
  background_(
      [directory = directory_, spec = spec_, observed = observed_, own] {
        Template t;
        std::string error;
        if (Load(TemplatePath(directory, spec.template_id), &t, &error) != 0) return;
        const std::optional<ServiceSpec> other = WhoReads(t, spec, observed);
        if (other && TakeOwnGroups(*other, &t)) *own = std::move(t);
      },
      [this, own, alive = std::weak_ptr<bool>(alive_)] {
        if (alive.expired()) return;
        if (!*own) return GoOn();
        found_(std::move(**own));
      });
}

void NodeSearch::End() {
  is_seeking_ = false;
  observed_.assign(kMostUnknownPages, {});
}

// The node that read most of these when the template was recorded, as a spec whose first_worker is
// its own; nothing if that is spec's.
std::optional<ServiceSpec> NodeSearch::WhoReads(const Template& whole, const ServiceSpec& spec,
                                                const std::vector<Observed>& observed) {
  std::map<std::string, uint32_t> files;
  for (uint32_t f = 0; f < whole.files.size(); f++) files[whole.files[f].path] = f;
  struct Node {
    uint32_t first_worker = kCommonGroup;
    uint32_t end_worker = 0;
    size_t hits = 0;
  };
  std::map<uint32_t, Node> nodes;
  for (const TemplateGroup& group : whole.groups) {
    if (group.id == kCommonGroup) continue;
    Node& node = nodes[group.node];
    node.first_worker = std::min(node.first_worker, group.id);
    node.end_worker = std::max(node.end_worker, group.id + 1);
    for (const Observed& o : observed) {
      const auto file = files.find(o.path);
      if (file == files.end()) continue;
      bool has = false;
      group.extents.ForEachSeries([&](const Extent& e, uint64_t stride, uint64_t count) {
        if (has || e.file != file->second || o.page < e.page) return;
        const uint64_t i = stride == 0 ? 0 : std::min((o.page - e.page) / stride, count - 1);
        has = o.page - (e.page + i * stride) < e.pages;
      });
      node.hits += has ? 1 : 0;
    }
  }
  const Node* best = nullptr;
  for (const auto& [number, node] : nodes) {
    const bool fits = node.end_worker - node.first_worker <= spec.workers;
    if (fits && (best == nullptr || node.hits > best->hits)) best = &node;
  }
  if (best == nullptr || best->hits * 2 < observed.size() ||
      best->first_worker == spec.first_worker)
    return std::nullopt;
  ServiceSpec other = spec;
  other.first_worker = best->first_worker;
  return other;
}

}  // namespace ppc::maio
