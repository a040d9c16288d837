// SPDX-License-Identifier: Apache-2.0
//
// Sequences of neighbours put together or doubled, see regroup.h.  Pure functions.
#include "policies/maio/regroup.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace ppc::maio {
namespace {

using Json = nlohmann::json;

// Slices of one tensor are no further apart: what lies between was mapped with both.
constexpr uint64_t kNearPages = 16;

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

// How often a slice of one worker (row) is followed in the file by one of another (column).
std::vector<std::vector<uint32_t>> Followers(const std::vector<const TemplateGroup*>& groups) {
  struct Edge {
    uint64_t file;
    uint64_t page;
    uint32_t group;
    bool is_end;
    bool operator<(const Edge& o) const { return std::tie(file, page) < std::tie(o.file, o.page); }
  };
  std::vector<Edge> edges;
  for (uint32_t g = 0; g < groups.size(); g++) {
    for (const Extent& e : groups[g]->extents) {
      edges.push_back({e.file, e.page, g, false});
      edges.push_back({e.file, e.page + e.pages, g, true});
    }
  }
  std::sort(edges.begin(), edges.end());
  std::vector<std::vector<uint32_t>> count(groups.size(), std::vector<uint32_t>(groups.size(), 0));
  std::vector<int> depth(groups.size(), 0);
  uint32_t readers = 0;
  struct Slice {  // that one worker alone reads
    uint64_t file = ~0ull;
    uint64_t end = 0;
    uint32_t group = 0;
  } last;
  for (size_t i = 0; i < edges.size(); i++) {
    const Edge& edge = edges[i];
    int& open = depth[edge.group];
    const int before = open;
    open += edge.is_end ? -1 : 1;
    if ((before > 0) != (open > 0)) readers += open > 0 ? 1u : ~0u;
    if (i + 1 == edges.size() || edges[i + 1].file != edge.file || readers != 1) continue;
    if (edges[i + 1].page == edge.page) continue;
    const auto at = std::find_if(depth.begin(), depth.end(), [](int n) { return n > 0; });
    const auto group = static_cast<uint32_t>(at - depth.begin());
    const bool is_near = last.file == edge.file && edge.page <= last.end + kNearPages;
    if (is_near && last.group != group) count[last.group][group]++;
    last = {edge.file, edges[i + 1].page, group};
  }
  return count;
}

// Within a tensor slices follow each other in the order of the workers.  The last worker's is
// followed by the first one's of another tensor, now and then: the weakest link of the ring.
void SortBySlices(std::vector<const TemplateGroup*>* groups) {
  const std::vector<std::vector<uint32_t>> count = Followers(*groups);
  const size_t n = groups->size();
  auto next = [&](size_t from) {
    return static_cast<size_t>(std::max_element(count[from].begin(), count[from].end()) -
                               count[from].begin());
  };
  size_t last = 0;
  size_t at = 0;
  for (size_t i = 0; i < n; i++, at = next(at)) {
    if (i > 0 && at == 0) return;  // no ring of all
    if (count[at][next(at)] < count[last][next(last)]) last = at;
  }
  if (at != 0) return;
  std::vector<const TemplateGroup*> sorted;
  at = next(last);
  for (size_t i = 0; i < n; i++, at = next(at)) sorted.push_back((*groups)[at]);
  *groups = std::move(sorted);
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
  std::vector<const TemplateGroup*> by_id = ByWorker(*t, recorded);
  if (by_id.empty()) return 0;
  // Recorded workers have the order of their XPUs.
  if (tp == 0) SortBySlices(&by_id);
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
