// SPDX-License-Identifier: Apache-2.0
//
// Sequences of neighbours put together or doubled, see regroup.h.  Pure functions.
#include "policies/maio/regroup.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

namespace ppc::maio {
namespace {

using Json = nlohmann::json;

// Pages of one file: start to end.
using Ranges = std::map<uint64_t, uint64_t>;

// Adds an extent; appends what was not there yet to *fresh.
void Cover(const Extent& e, Ranges* ranges, std::vector<Extent>* fresh) {
  uint64_t page = e.page;
  const uint64_t end = e.page + e.pages;
  auto it = ranges->upper_bound(page);
  if (it != ranges->begin()) --it;
  for (; it != ranges->end() && it->first < end; ++it) {
    if (it->second <= page) continue;
    if (it->first > page) fresh->push_back({e.file, page, it->first - page});
    page = std::max(page, it->second);
  }
  if (page < end) fresh->push_back({e.file, page, end - page});
  uint64_t first = e.page;
  uint64_t last = end;
  it = ranges->upper_bound(first);
  if (it != ranges->begin() && std::prev(it)->second >= first) --it;
  while (it != ranges->end() && it->first <= last) {
    first = std::min(first, it->first);
    last = std::max(last, it->second);
    it = ranges->erase(it);
  }
  (*ranges)[first] = last;
}

bool ReadsTwice(const TemplateGroup& group) {
  std::map<uint32_t, Ranges> covered;
  std::vector<Extent> fresh;
  for (const Extent& e : group.extents) Cover(e, &covered[e.file], &fresh);
  uint64_t pages = 0;
  for (const Extent& e : fresh) pages += e.pages;
  return pages * kPage != SequenceBytes(group);
}

// The next extent is of the member that got least far: all have their slices of the same tensors.
TemplateGroup Join(const std::vector<const TemplateGroup*>& members, uint32_t id) {
  TemplateGroup joined;
  joined.id = id;
  joined.node = members[0]->node;
  joined.first_ms = members[0]->first_ms;
  std::vector<size_t> next(members.size(), 0);
  std::vector<uint64_t> done(members.size(), 0);
  std::vector<double> total;
  for (const TemplateGroup* member : members) {
    joined.first_ms = std::min(joined.first_ms, member->first_ms);
    joined.last_ms = std::max(joined.last_ms, member->last_ms);
    joined.overread_bytes += member->overread_bytes;
    total.push_back(static_cast<double>(SequenceBytes(*member)));
  }
  std::map<uint32_t, Ranges> covered;
  while (true) {
    size_t least = members.size();
    double share = 2;
    for (size_t m = 0; m < members.size(); m++) {
      if (next[m] == members[m]->extents.size()) continue;
      const double at = static_cast<double>(done[m]) / total[m];
      if (at >= share) continue;
      share = at;
      least = m;
    }
    if (least == members.size()) return joined;
    const Extent& e = members[least]->extents[next[least]++];
    done[least] += e.pages * kPage;
    Cover(e, &covered[e.file], &joined.extents);
  }
}

}  // namespace

bool Regroup(Template* t, uint32_t workers) {
  Json meta = Json::parse(t->meta, nullptr, false);
  if (!meta.is_object() || !meta.contains("workers") || !meta["workers"].is_number_unsigned())
    return false;
  const auto recorded = meta["workers"].get<uint32_t>();
  if (workers == 0 || recorded == 0 || workers == recorded || workers >= kMaxGroups) return false;
  if ((workers % recorded != 0 && recorded % workers != 0) || (t->flags & kMerged) != 0)
    return false;
  std::vector<const TemplateGroup*> by_id(recorded, nullptr);
  std::vector<TemplateGroup> groups;
  const TemplateGroup* common = nullptr;
  for (const TemplateGroup& group : t->groups) {
    if (group.id == kCommonGroup) {
      common = &group;
    } else if (group.id < recorded && !ReadsTwice(group)) {
      by_id[group.id] = &group;
    } else {
      return false;
    }
  }
  if (std::find(by_id.begin(), by_id.end(), nullptr) != by_id.end()) return false;
  for (uint32_t w = 0; w < workers; w++) {
    const uint32_t first = w * recorded / workers;
    const uint32_t end = std::max(first + 1, (w + 1) * recorded / workers);
    groups.push_back(Join({by_id.begin() + first, by_id.begin() + end}, w));
  }
  if (common != nullptr) groups.push_back(*common);
  meta["workers"] = workers;
  t->meta = meta.dump(-1, ' ', true, Json::error_handler_t::replace);
  t->groups = std::move(groups);
  return true;
}

}  // namespace ppc::maio
