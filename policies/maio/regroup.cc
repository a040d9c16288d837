// SPDX-License-Identifier: Apache-2.0
//
// Sequences of neighbours put together or doubled, see regroup.h.  Pure functions.
#include "policies/maio/regroup.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
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

void Append(const Extent& e, std::vector<Extent>* extents) {
  if (!extents->empty()) {
    Extent& last = extents->back();
    if (last.file == e.file && last.page + last.pages == e.page) {
      last.pages += e.pages;
      return;
    }
  }
  extents->push_back(e);
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
  std::vector<Extent> fresh;
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
    fresh.clear();
    Cover(e, &covered[e.file], &fresh);
    for (const Extent& part : fresh) Append(part, &joined.extents);
  }
}

// The workers of the recording whose lists worker w reads now.
struct Span {
  uint32_t first = 0;
  uint32_t end = 0;
};

Span Sources(uint32_t w, uint32_t workers, uint32_t recorded, uint32_t tp) {
  if (tp != 0) {
    const uint32_t source = w < recorded ? w : w % tp;
    return {source, source + 1};
  }
  const uint32_t first = w * recorded / workers;
  return {first, std::max(first + 1, (w + 1) * recorded / workers)};
}

// 0: not known.
uint32_t RecordedWorkers(const Template& t) {
  const Json meta = Json::parse(t.meta, nullptr, false);
  if (!meta.is_object()) return 0;
  const auto workers = meta.find("workers");
  if (workers == meta.end() || !workers->is_number_unsigned()) return 0;
  const auto count = workers->get<uint64_t>();
  return count < kMaxGroups ? static_cast<uint32_t>(count) : 0;
}

bool Fits(const std::vector<TemplateGroup>& groups) {
  uint64_t sum = 0;
  for (const TemplateGroup& group : groups) {
    if (group.extents.size() > kMaxExtents) return false;
    sum += group.extents.size();
  }
  return sum <= kMaxTotalExtents;
}

// By worker; empty when one is missing, is none of them or reads something twice.
std::vector<const TemplateGroup*> ByWorker(const Template& t, uint32_t recorded) {
  std::vector<const TemplateGroup*> by_id(recorded, nullptr);
  for (const TemplateGroup& group : t.groups) {
    if (group.id == kCommonGroup) continue;
    if (group.id >= recorded || ReadsTwice(group)) return {};
    by_id[group.id] = &group;
  }
  if (std::find(by_id.begin(), by_id.end(), nullptr) != by_id.end()) return {};
  return by_id;
}

}  // namespace

uint32_t Regroup(Template* t, uint32_t workers, uint32_t tp) {
  const uint32_t recorded = RecordedWorkers(*t);
  if (workers == 0 || recorded == 0 || workers == recorded || workers >= kMaxGroups) return 0;
  const uint32_t unit = tp != 0 ? tp : recorded;
  if ((workers % unit != 0 && unit % workers != 0) || (t->flags & kMerged) != 0) return 0;
  if (tp != 0 && recorded % tp != 0) return 0;
  const std::vector<const TemplateGroup*> by_id = ByWorker(*t, recorded);
  if (by_id.empty()) return 0;
  std::vector<TemplateGroup> groups;
  uint64_t copied = 0;
  for (uint32_t w = 0; w < workers; w++) {
    const Span from = Sources(w, workers, recorded, tp);
    if (from.end - from.first > 1) {
      groups.push_back(Join({by_id.begin() + from.first, by_id.begin() + from.end}, w));
      continue;
    }
    copied += by_id[from.first]->extents.size();
    if (copied > kMaxTotalExtents) return 0;
    groups.push_back(*by_id[from.first]);
    groups.back().id = w;
  }
  for (const TemplateGroup& group : t->groups) {
    if (group.id == kCommonGroup) groups.push_back(group);
  }
  if (!Fits(groups)) return 0;
  t->meta = "{\"workers\":" + std::to_string(workers) + "}";
  t->groups = std::move(groups);
  return std::max(workers / unit, 1u);
}

}  // namespace ppc::maio
