// SPDX-License-Identifier: Apache-2.0
//
// Sequences of neighbours put together or doubled, see regroup.h.  Pure functions.
#include "policies/maio/record/regroup.h"

#include <algorithm>
#include <bit>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace ppc::maio {
namespace {

using Json = nlohmann::json;

// Between slices of one tensor: pages that were mapped with both.
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

// Members that are about as far read the same tensors.
constexpr double kAsFar = 1.0 / 32;

// One list of a group, as it is put together with others.
struct Member {
  const TemplateGroup* group;
  double bytes;
  uint64_t done = 0;
  ExtentList::Iterator next = group->extents.begin();

  bool is_over() const { return next == group->extents.end(); }
  Extent head() const { return *next; }
  double share() const { return static_cast<double>(done) / bytes; }
};

// Whose extent comes next; members.end() when all are over.  That of the member that got least far,
// or of one about as far that is still in the file of the last extent, or before it in its file:
// one worker reads the slices of a tensor in the order of the file.
std::vector<Member>::iterator Next(std::vector<Member>* members,
                                   const std::vector<Extent>& before) {
  auto least = members->end();
  for (auto m = members->begin(); m != members->end(); ++m) {
    if (!m->is_over() && (least == members->end() || m->share() < least->share())) least = m;
  }
  if (least == members->end()) return least;
  const auto is_as_far = [&](const Member& m) {
    return !m.is_over() && m.share() <= least->share() + kAsFar;
  };
  uint32_t file = least->head().file;
  for (const Member& m : *members) {
    if (!before.empty() && is_as_far(m) && m.head().file == before.back().file)
      file = before.back().file;
  }
  auto best = members->end();
  for (auto m = members->begin(); m != members->end(); ++m) {
    if (!is_as_far(*m) || m->head().file != file) continue;
    if (best == members->end() || m->head().page < best->head().page) best = m;
  }
  return best;
}

TemplateGroup Join(const std::vector<const TemplateGroup*>& groups, uint32_t id) {
  TemplateGroup joined;
  joined.id = id;
  joined.node = groups[0]->node;
  joined.first_ms = groups[0]->first_ms;
  std::vector<Member> members;
  for (const TemplateGroup* group : groups) {
    joined.first_ms = std::min(joined.first_ms, group->first_ms);
    joined.last_ms = std::max(joined.last_ms, group->last_ms);
    joined.overread_bytes += group->overread_bytes;
    members.push_back({group, static_cast<double>(SequenceBytes(*group))});
  }
  std::map<uint32_t, Ranges> covered;
  std::vector<Extent> fresh;
  std::vector<Extent> extents;
  for (auto m = Next(&members, extents); m != members.end(); m = Next(&members, extents)) {
    const Extent e = m->head();
    m->done += e.pages * kPage;
    ++m->next;
    fresh.clear();
    Cover(e, &covered[e.file], &fresh);
    for (const Extent& part : fresh) Append(part, &extents);
  }
  joined.extents = extents;
  return joined;
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

struct Recorded {
  uint32_t workers = 0;  // 0: not known
  uint32_t tp = 0;
};

Recorded RecordedWith(const Template& t) {
  const auto number = [](const Json& json, const char* key) -> uint32_t {
    const auto it = json.find(key);
    if (it == json.end() || !it->is_number_unsigned()) return 0;
    const auto count = it->get<uint64_t>();
    return count < kMaxGroups ? static_cast<uint32_t>(count) : 0;
  };
  const Json meta = Json::parse(t.meta, nullptr, false);
  if (!meta.is_object()) return {};
  Recorded recorded = {number(meta, "workers"), 0};
  const auto params = meta.find("params");
  if (params == meta.end() || !params->is_object()) return recorded;
  for (const char* key : {"tp", "tensor_parallel_size"}) {
    if (recorded.tp == 0) recorded.tp = number(*params, key);
  }
  return recorded;
}

bool Fits(const std::vector<TemplateGroup>& groups) {
  uint64_t sum = 0;
  for (const TemplateGroup& group : groups) {
    if (group.extents.size() > kMaxExtents) return false;
    sum += group.extents.size();
  }
  return sum <= kMaxTotalExtents;
}

// How often a slice of one worker (row) is followed in the file by one of another (column) that is
// about as long: the first and the last rows of a tensor that is split by columns are one worker's
// alone, too, and lie beside others' slices.
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
  uint64_t readers = 0;  // bit per group
  struct Slice {         // that one worker alone reads
    uint64_t file = ~0ull;
    uint64_t page = 0;
    uint64_t end = 0;
    uint32_t group = 0;
    uint64_t pages() const { return end - page; }
  };
  Slice before;
  Slice last;
  const auto count_last = [&] {
    const bool is_near = before.file == last.file && last.page <= before.end + kNearPages;
    const bool is_like =
        std::max(before.pages(), last.pages()) <= 2 * std::min(before.pages(), last.pages());
    if (is_near && is_like && before.group != last.group) count[before.group][last.group]++;
  };
  for (size_t i = 0; i + 1 < edges.size(); i++) {
    const Edge& edge = edges[i];
    depth[edge.group] += edge.is_end ? -1 : 1;
    const uint64_t bit = 1ull << edge.group;
    readers = depth[edge.group] > 0 ? readers | bit : readers & ~bit;
    const Edge& next = edges[i + 1];
    if (next.file != edge.file || next.page == edge.page || !std::has_single_bit(readers)) continue;
    const auto group = static_cast<uint32_t>(std::countr_zero(readers));
    if (last.file == edge.file && last.group == group && last.end == edge.page) {
      last.end = next.page;
      continue;
    }
    count_last();
    before = std::exchange(last, {edge.file, edge.page, next.page, group});
  }
  count_last();
  return count;
}

// Within a tensor slices follow each other in the order of the workers.  The last worker's is
// followed by the first one's of another tensor, now and then: the weakest link of the ring.
// Without a ring, or when two links are the weakest, the order stays.
void SortBySlices(std::vector<const TemplateGroup*>* groups) {
  const std::vector<std::vector<uint32_t>> count = Followers(*groups);
  const size_t n = groups->size();
  if (n < 2) return;
  std::vector<size_t> next(n);
  std::vector<uint32_t> link(n);
  for (size_t g = 0; g < n; g++) {
    const auto most = std::max_element(count[g].begin(), count[g].end());
    next[g] = static_cast<size_t>(most - count[g].begin());
    link[g] = *most;
  }
  const auto last = static_cast<size_t>(std::min_element(link.begin(), link.end()) - link.begin());
  if (std::count(link.begin(), link.end(), link[last]) > 1) return;
  std::vector<bool> follows(n, false);
  for (size_t g = 0; g < n; g++) {
    if (g != last) follows[next[g]] = true;
  }
  size_t at =
      static_cast<size_t>(std::find(follows.begin(), follows.end(), false) - follows.begin());
  std::vector<const TemplateGroup*> sorted;
  for (std::vector<bool> seen(n, false); at < n && !seen[at]; at = next[at]) {
    seen[at] = true;
    sorted.push_back((*groups)[at]);
    if (at == last) break;
  }
  if (sorted.size() == n && sorted.back() == (*groups)[last]) *groups = std::move(sorted);
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
  const auto [recorded, recorded_tp] = RecordedWith(*t);
  if (workers == 0 || recorded == 0 || workers == recorded || workers >= kMaxGroups) return 0;
  // Cut otherwise than today: only one copy can be put together from one.
  if (tp != 0 && recorded_tp != 0 && tp != recorded_tp) {
    if (recorded != recorded_tp || workers != tp) return 0;
    tp = 0;
  }
  const uint32_t unit = tp != 0 ? tp : recorded;
  if ((workers % unit != 0 && unit % workers != 0) || (t->flags & kMerged) != 0) return 0;
  if (tp != 0 && recorded % tp != 0) return 0;
  std::vector<const TemplateGroup*> by_id = ByWorker(*t, recorded);
  if (by_id.empty()) return 0;
  // Numbers have the order of the XPUs.
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
  // Each takes what it took.
  const uint64_t own = OwnBytes(*t) / recorded * workers;
  t->meta = Json({{"workers", workers}, {"own_bytes", own}}).dump();
  t->groups = std::move(groups);
  return std::max(workers / unit, 1u);
}

}  // namespace ppc::maio
