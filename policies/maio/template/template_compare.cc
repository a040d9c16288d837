// SPDX-License-Identifier: Apache-2.0
//
// Templates next to each other, see template_compare.h.
#include "policies/maio/template/template_compare.h"

#include <algorithm>

namespace ppc::maio {
namespace {

const TemplateGroup* GroupOf(const Template& t, uint32_t id) {
  for (const TemplateGroup& group : t.groups) {
    if (group.id == id) return &group;
  }
  return nullptr;
}

// Adds extents of a group, but not pages that out lists already.
void Append(const ExtentList& extents, TemplateGroup* out) {
  std::map<uint32_t, std::map<uint64_t, uint64_t>> covered;
  for (const Extent& e : out->extents) {
    uint64_t& end = covered[e.file][e.page];
    end = std::max(end, e.page + e.pages);
  }
  for (Extent e : extents) {
    const auto& file = covered[e.file];
    auto after = file.upper_bound(e.page);
    bool listed = after != file.begin() && std::prev(after)->second >= e.page + e.pages;
    if (!listed) out->extents.push_back(e);
  }
}

}  // namespace

bool SameFile(const TemplateFile& a, const TemplateFile& b) {
  bool known = a.fingerprint != Fingerprint{} && b.fingerprint != Fingerprint{};
  return a.size == b.size && (!known || a.fingerprint == b.fingerprint);
}

std::optional<Template> Merge(std::span<const Template> parts, std::string* error) {
  Template out;
  std::vector<const Template*> order;
  for (const Template& part : parts) order.push_back(&part);
  std::stable_sort(order.begin(), order.end(), [](const Template* a, const Template* b) {
    return a->created_ns > b->created_ns;
  });
  std::map<std::string, uint32_t> files;
  bool first = true;
  for (const Template* part : order) {
    if (first) {
      out.service_id = part->service_id;
      out.created_ns = part->created_ns;
      out.meta = part->meta;
      out.flags = part->flags;
    }
    if (part->service_id != out.service_id) {
      *error = "parts of two services, " + out.service_id + " and " + part->service_id;
      return std::nullopt;
    }
    // Complete and traced when all are; anything doubtful in one is doubtful in all.
    constexpr uint32_t kAll = kComplete | kTraced;
    out.flags = (out.flags & part->flags & kAll) | ((out.flags | part->flags) & ~kAll);
    out.generation = std::max(out.generation, part->generation);
    first = false;
    std::vector<uint32_t> map;
    for (const TemplateFile& file : part->files) {
      auto [it, is_new] = files.emplace(file.path, static_cast<uint32_t>(out.files.size()));
      if (is_new) {
        out.files.push_back(file);
      } else if (!SameFile(out.files[it->second], file)) {
        *error = file.path + " is not the same file in all parts; record again where it is old";
        return std::nullopt;
      }
      map.push_back(it->second);
    }
    for (TemplateGroup group : part->groups) {
      ExtentList renumbered;
      group.extents.ForEachSeries([&](Extent e, uint64_t stride, uint64_t count) {
        e.file = map[e.file];
        renumbered.AppendSeries(e, stride, count);
      });
      group.extents = std::move(renumbered);
      auto known = std::find_if(out.groups.begin(), out.groups.end(),
                                [&](const TemplateGroup& g) { return g.id == group.id; });
      if (known == out.groups.end()) {
        out.groups.push_back(std::move(group));
      } else if (group.id == kCommonGroup) {
        Append(group.extents, &*known);
      }
    }
  }
  std::sort(out.groups.begin(), out.groups.end(),
            [](const TemplateGroup& a, const TemplateGroup& b) {
              return std::pair(a.node, a.id) < std::pair(b.node, b.id);
            });
  out.flags |= kMerged;
  *error = first ? "nothing to merge" : Check(out);
  if (!error->empty()) return std::nullopt;
  return out;
}

void CompleteWith(Template* t, const Template& fresh) {
  std::map<std::string, uint32_t> by_path;
  for (uint32_t f = 0; f < t->files.size(); f++) by_path[t->files[f].path] = f;
  std::vector<int64_t> map;
  for (const TemplateFile& file : fresh.files) {
    auto [it, is_new] = by_path.emplace(file.path, static_cast<uint32_t>(t->files.size()));
    if (is_new) t->files.push_back(file);
    map.push_back(is_new || SameFile(t->files[it->second], file) ? int64_t{it->second} : -1);
  }
  for (const TemplateGroup& source : fresh.groups) {
    auto known = std::find_if(t->groups.begin(), t->groups.end(),
                              [&](const TemplateGroup& g) { return g.id == source.id; });
    if (known == t->groups.end()) {
      known = t->groups.insert(known, TemplateGroup());
      known->id = source.id;
      known->node = source.node;
    }
    std::vector<std::map<uint64_t, uint64_t>> covered(t->files.size());  // first page -> end
    auto cover = [&](const Extent& e) {
      uint64_t& end = covered[e.file][e.page];
      end = std::max(end, e.page + e.pages);
    };
    for (const Extent& e : known->extents) cover(e);
    for (const Extent& e : source.extents) {
      if (map[e.file] < 0) continue;
      uint32_t file = static_cast<uint32_t>(map[e.file]);
      uint64_t end = e.page + e.pages;
      for (uint64_t page = e.page; page < end;) {
        auto next = covered[file].upper_bound(page);
        if (next != covered[file].begin() && std::prev(next)->second > page) {
          page = std::prev(next)->second;
          continue;
        }
        uint64_t stop = next == covered[file].end() ? end : std::min(end, next->first);
        const Extent missing = {file, page, stop - page};
        known->extents.push_back(missing);
        cover(missing);
        page = stop;
      }
    }
  }
}

bool ReplaceFile(Template* t, uint32_t file, const Template& fresh) {
  if (fresh.files.size() != 1) return false;
  std::vector<ExtentList> sequences;
  for (const TemplateGroup& group : t->groups) {
    ExtentList& out = sequences.emplace_back();
    const TemplateGroup* source = GroupOf(fresh, group.id);
    bool done = false;
    for (const Extent& e : group.extents) {
      if (e.file != file) {
        out.push_back(e);
        continue;
      }
      if (done) continue;
      done = true;
      if (source == nullptr && group.id != kCommonGroup) return false;
      if (source == nullptr) continue;
      for (Extent copy : source->extents) {
        copy.file = file;
        out.push_back(copy);
      }
    }
  }
  for (size_t i = 0; i < sequences.size(); i++) t->groups[i].extents = std::move(sequences[i]);
  std::string path = t->files[file].path;
  t->files[file] = fresh.files[0];
  t->files[file].path = std::move(path);
  return true;
}

}  // namespace ppc::maio
