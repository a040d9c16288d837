// SPDX-License-Identifier: Apache-2.0
//
// Parsing of configurations and service specifications.  Pure functions.
#include "policies/maio/config.h"

#include <algorithm>
#include <array>
#include <bit>

#include "policies/maio/template/template.h"

namespace ppc::maio {
namespace {

using Json = nlohmann::json;

bool ReadFlag(const Json& json, const char* key, bool* out, std::string* error) {
  auto it = json.find(key);
  if (it == json.end()) return true;
  if (!it->is_boolean()) {
    *error = std::string("maio: \"") + key + "\" must be true or false";
    return false;
  }
  *out = it->get<bool>();
  return true;
}

template <typename Enum>
bool ReadChoice(const Json& json, const char* key,
                std::initializer_list<std::pair<const char*, Enum>> choices, Enum* out,
                std::string* error) {
  auto it = json.find(key);
  if (it == json.end()) return true;
  std::string names;
  for (auto [name, value] : choices) {
    if (it->is_string() && it->get<std::string>() == name) {
      *out = value;
      return true;
    }
    names += names.empty() ? name : std::string(", ") + name;
  }
  *error = std::string("maio: \"") + key + "\" must be one of " + names;
  return false;
}

bool ReadCount(const Json& json, const char* key, uint32_t max, uint32_t* out, std::string* error) {
  auto it = json.find(key);
  if (it == json.end() || it->is_null()) return true;
  if (!it->is_number_unsigned() || it->get<uint64_t>() > max) {
    *error = std::string("maio: \"") + key + "\" must be a number up to " + std::to_string(max);
    return false;
  }
  *out = it->get<uint32_t>();
  return true;
}

bool ReadText(const Json& json, const char* key, std::string* out, std::string* error) {
  auto it = json.find(key);
  if (it == json.end()) return true;
  if (!it->is_string() || it->get_ref<const std::string&>().empty()) {
    *error = std::string("maio: \"") + key + "\" must be text";
    return false;
  }
  *out = it->get<std::string>();
  return true;
}

bool ReadNode(const Json& message, ServiceSpec* out, std::string* error) {
  if (!ReadCount(message, "nodes", kMaxGroups - 1, &out->nodes, error) ||
      !ReadCount(message, "node", kMaxGroups - 1, &out->node, error) ||
      !ReadCount(message, "first_worker", kMaxGroups - 1, &out->first_worker, error)) {
    return false;
  }
  auto first = message.find("first_worker");
  out->first_told = first != message.end() && !first->is_null();
  out->nodes = std::max(out->nodes, 1u);
  if (out->node >= out->nodes) {
    *error = "maio: \"node\" must be below \"nodes\", " + std::to_string(out->nodes);
    return false;
  }
  if (out->nodes == 1) return true;
  if (out->workers == 0) {
    *error = "maio: a service on several nodes needs \"workers\" (of this node) or \"xpus\"";
    return false;
  }
  if (!out->first_told) out->first_worker = out->node * out->workers;
  if (out->first_worker + out->workers > kMaxGroups - 1) {
    *error = "maio: a service has at most " + std::to_string(kMaxGroups - 1) +
             " workers on all its nodes";
    return false;
  }
  return true;
}

// Those of a service are here when one is named in the registration; `runtime` is the runtime's.
constexpr std::array kKeys = {
    "distance",   "prefetch",  "affinity", "affinity_fix", "bar",          "affinity_fix_ahead_s",
    "store",      "store_key", "node",     "nodes",        "first_worker", "stand_down",
    "max_pieces", "record",    "at_ready", "runtime",      "service_id",   "service",
    "params",     "workers",   "xpus"};

bool KnowsKeys(const Json& json, std::string* error) {
  for (const auto& item : json.items()) {
    if (std::find(kKeys.begin(), kKeys.end(), item.key()) != kKeys.end()) continue;
    *error = "maio: there is no option \"" + item.key() + "\"; there are";
    for (const char* key : kKeys) *error += std::string(" ") + key;
    return false;
  }
  return true;
}

}  // namespace

bool ParseBytes(const Json& value, uint64_t* out) {
  if (value.is_number_unsigned()) {
    *out = value.get<uint64_t>();
    return true;
  }
  if (!value.is_string()) return false;
  std::string text = value.get<std::string>();
  size_t digits = 0;
  uint64_t number = 0;
  while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9') {
    if (number > (1ull << 50)) return false;
    number = number * 10 + static_cast<uint64_t>(text[digits++] - '0');
  }
  if (digits == 0 || text.size() > digits + 1) return false;
  if (text.size() == digits) {
    *out = number;
    return true;
  }
  const std::string kUnits = "KMGT";
  size_t unit = kUnits.find(static_cast<char>(text[digits] & ~0x20));
  if (unit == std::string::npos || number >> (53 - 10 * unit) != 0) return false;
  *out = number << (10 * (unit + 1));
  return true;
}

bool ParseConfig(const std::string& text, Config* out, std::string* error) {
  Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) {
    *error = "maio: the configuration is not a JSON object";
    return false;
  }
  if (!KnowsKeys(json, error)) return false;
  if (auto it = json.find("distance"); it != json.end() && !ParseBytes(*it, &out->distance)) {
    *error = "maio: \"distance\" must be bytes, a number or like \"64M\"";
    return false;
  }
  if (!ReadFlag(json, "prefetch", &out->prefetch, error) ||
      !ReadFlag(json, "affinity", &out->affinity, error) ||
      !ReadFlag(json, "bar", &out->bar, error) ||
      !ReadFlag(json, "stand_down", &out->stand_down, error)) {
    return false;
  }
  if (!ReadChoice<RecordMode>(json, "record",
                              {{"auto", RecordMode::kAuto},
                               {"always", RecordMode::kAlways},
                               {"never", RecordMode::kNever}},
                              &out->record, error) ||
      !ReadChoice<AtReady>(
          json, "at_ready",
          {{"auto", AtReady::kAuto}, {"keep", AtReady::kKeep}, {"all", AtReady::kAll}},
          &out->at_ready, error) ||
      !ReadChoice<AffinityFix>(json, "affinity_fix",
                               {{"leave", AffinityFix::kLeave}, {"evict", AffinityFix::kEvict}},
                               &out->affinity_fix, error) ||
      !ReadCount(json, "max_pieces", 1u << 30, &out->max_pieces, error) ||
      !ReadCount(json, "affinity_fix_ahead_s", 86400, &out->affinity_fix_ahead_s, error)) {
    return false;
  }
  if (!ReadText(json, "store", &out->store, error) ||
      !ReadText(json, "store_key", &out->store_key, error)) {
    return false;
  }
  if (!out->store_key.empty() && out->store.empty()) {
    *error = "maio: \"store_key\" is of a \"store\"; name that, too";
    return false;
  }
  if (json.contains("service_id")) out->service = json;
  return true;
}

bool ParseService(const Json& message, ServiceSpec* out, std::string* error) {
  auto id = message.find("service_id");
  if (id == message.end() || !id->is_string() || !ValidServiceId(id->get<std::string>())) {
    *error = "maio: \"service_id\" must be 4 to 64 of [0-9A-Za-z._-]";
    return false;
  }
  out->service_id = id->get<std::string>();
  if (!ReadCount(message, "service", ~0u, &out->number, error) ||
      !ReadCount(message, "workers", kMaxGroups - 1, &out->workers, error)) {
    return false;
  }
  if (auto xpus = message.find("xpus"); xpus != message.end() && !xpus->is_null()) {
    bool good = xpus->is_array() && xpus->size() < kMaxGroups;
    for (size_t i = 0; good && i < xpus->size(); i++) {
      const Json& xpu = (*xpus)[i];
      good = xpu.is_number_unsigned() && xpu.get<uint64_t>() < 4096;
      if (good) out->xpus.push_back(xpu.get<int32_t>());
    }
    if (!good) {
      *error = "maio: \"xpus\" must be an array of at most 63 XPU numbers";
      return false;
    }
  }
  if (out->workers == 0) out->workers = static_cast<uint32_t>(out->xpus.size());
  if (auto it = message.find("resumed"); it != message.end()) out->is_resumed = *it == true;
  if (!ReadNode(message, out, error)) return false;
  if (auto params = message.find("params"); params != message.end()) out->params = *params;
  return true;
}

uint64_t BarDistance(const Config& config, uint64_t budget, size_t groups) {
  uint64_t distance = config.distance != 0 ? config.distance : kGiB;
  return std::max(std::min(distance, budget / 8 / std::max<size_t>(groups, 2)), kMiB);
}

uint64_t BeaconBytes(uint64_t distance) {
  return std::clamp<uint64_t>(std::bit_floor(distance / 8), 64 << 10, kMiB);
}

}  // namespace ppc::maio
