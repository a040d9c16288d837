// SPDX-License-Identifier: Apache-2.0
//
// Templates for people: JSON for `ppcctl template show` (sums) and dump (all).
#include <algorithm>
#include <nlohmann/json.hpp>

#include "daemon/base/digests.h"
#include "policies/maio/template/template.h"

namespace ppc::maio {
namespace {

using Json = nlohmann::ordered_json;

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
  if (group.id == kCommonGroup) {
    g["group"] = "common";
  } else {
    g["group"] = group.id;
  }
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

uint64_t OwnBytes(const Template& t) {
  const Json meta = Json::parse(t.meta, nullptr, false);
  const auto own = meta.is_object() ? meta.find("own_bytes") : meta.end();
  return own != meta.end() && own->is_number_unsigned() ? own->get<uint64_t>() : 0;
}

}  // namespace ppc::maio
