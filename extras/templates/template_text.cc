// SPDX-License-Identifier: Apache-2.0
#include "extras/templates/template_text.h"

#include <algorithm>
#include <initializer_list>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "daemon/base/digests.h"
#include "policies/maio/template/template_compare.h"

namespace ppc::maio {
namespace {

using Json = nlohmann::ordered_json;

Json GroupName(uint32_t id) { return id == kCommonGroup ? Json("common") : Json(id); }

std::map<std::string, const TemplateFile*> ByPath(const Template& t) {
  std::map<std::string, const TemplateFile*> files;
  for (const TemplateFile& file : t.files) files[file.path] = &file;
  return files;
}

// What groups list, as one.
class Union {
 public:
  void Add(const Template& t, uint32_t id) {
    for (const TemplateGroup& group : t.groups) {
      if (group.id == id) Add(t, group);
    }
  }
  uint64_t bytes() const { return DistinctBytes(all_); }

 private:
  void Add(const Template& t, const TemplateGroup& group) {
    all_.groups.resize(1);
    for (Extent e : group.extents) {
      const auto [known, is_new] =
          index_.try_emplace(t.files[e.file].path, static_cast<uint32_t>(all_.files.size()));
      if (is_new) all_.files.push_back(t.files[e.file]);
      e.file = known->second;
      all_.groups[0].extents.push_back(e);
    }
  }

  Template all_;
  std::map<std::string, uint32_t> index_;
};

uint64_t BytesOf(std::initializer_list<const Template*> templates, uint32_t id) {
  Union all;
  for (const Template* t : templates) all.Add(*t, id);
  return all.bytes();
}

Json FlagNames(uint32_t flags) {
  Json names = Json::array();
  const std::pair<uint32_t, const char*> kNames[] = {
      {kComplete, "complete"},        {kSynthetic, "synthetic"}, {kTraced, "traced"},
      {kWarmSuspect, "warm-suspect"}, {kPartial, "partial"},     {kMerged, "merged"},
      {kRerecord, "rerecord"},        {kOverflow, "overflow"}};
  for (auto [bit, name] : kNames) {
    if (flags & bit) names.push_back(name);
  }
  return names;
}

Json GroupJson(const Template& t, const TemplateGroup& group, bool extents) {
  Json g;
  g["group"] = GroupName(group.id);
  g["node"] = group.node;
  g["extents"] = group.extents.size();
  g["bytes"] = SequenceBytes(group);
  g["first_ms"] = group.first_ms;
  g["last_ms"] = group.last_ms;
  g["repeat_bytes"] = group.repeat_bytes;
  g["overread_bytes"] = group.overread_bytes;
  if (extents) {
    Json list = Json::array();
    for (const Extent& e : group.extents) {
      list.push_back(
          {{"path", t.files[e.file].path}, {"offset", e.page * kPage}, {"size", e.pages * kPage}});
    }
    g["sequence"] = std::move(list);
    g["time_ms"] = group.time_ms;
  }
  return g;
}

}  // namespace

std::string KindName(FileKind kind) {
  const auto format = std::ranges::find(kFormats, kind, &Format::kind);
  if (format != kFormats.end()) return std::string(format->name);
  return kind == FileKind::kSmall ? "small" : "other";
}

std::string ToJson(const Template& t, bool extents) {
  Json json;
  json["service_id"] = t.service_id;
  json["flags"] = FlagNames(t.flags);
  json["created_ns"] = t.created_ns;
  json["generation"] = t.generation;
  Json meta = Json::parse(t.meta, nullptr, false);
  json["meta"] = meta.is_discarded() ? Json(nullptr) : std::move(meta);
  uint64_t sum = 0;
  for (const TemplateGroup& group : t.groups) sum += SequenceBytes(group);
  json["bytes"] = DistinctBytes(t);
  json["sequence_bytes"] = sum;
  json["template_bytes"] = Encode(t).size();
  json["files"] = Json::array();
  for (const TemplateFile& file : t.files) {
    json["files"].push_back(
        {{"path", file.path},
         {"size", file.size},
         {"mtime_ns", file.mtime_ns},
         {"kind", KindName(file.kind)},
         {"fingerprint", Hex(file.fingerprint.data(), file.fingerprint.size())}});
  }
  json["groups"] = Json::array();
  for (const TemplateGroup& group : t.groups)
    json["groups"].push_back(GroupJson(t, group, extents));
  if (!t.phases.empty()) {
    json["phases"] = Json::array();
    for (const PhaseMark& mark : t.phases) {
      uint64_t bytes = 0;
      for (auto [group, position] : mark.positions) bytes += position;
      json["phases"].push_back({{"phase", PhaseName(mark.phase)},
                                {"ms", mark.ms},
                                {"bytes", bytes},
                                {"told", mark.is_told}});
    }
  }
  // Paths come from a file: replace what is not UTF-8 rather than fail.
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

std::string DiffJson(const Template& a, const Template& b, bool* same) {
  Json json = {{"files", Json::array()}, {"groups", Json::array()}};
  auto files_a = ByPath(a);
  auto files_b = ByPath(b);
  for (const auto& [path, file] : files_a) {
    auto other = files_b.find(path);
    if (other == files_b.end()) {
      json["files"].push_back({{"path", path}, {"only_in", "first"}});
    } else if (!SameFile(*file, *other->second)) {
      json["files"].push_back(
          {{"path", path}, {"sizes", {file->size, other->second->size}}, {"changed", true}});
    }
  }
  for (const auto& [path, file] : files_b) {
    if (!files_a.count(path)) json["files"].push_back({{"path", path}, {"only_in", "second"}});
  }
  *same = json["files"].empty();
  std::vector<uint32_t> ids;
  for (const Template* t : {&a, &b}) {
    for (const TemplateGroup& group : t->groups) ids.push_back(group.id);
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  for (uint32_t id : ids) {
    const uint64_t both = BytesOf({&a, &b}, id);
    const uint64_t only_a = both - BytesOf({&b}, id);
    const uint64_t only_b = both - BytesOf({&a}, id);
    *same = *same && only_a == 0 && only_b == 0;
    json["groups"].push_back({{"group", GroupName(id)},
                              {"both", both - only_a - only_b},
                              {"only_in_first", only_a},
                              {"only_in_second", only_b}});
  }
  json["same"] = *same;
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace ppc::maio
