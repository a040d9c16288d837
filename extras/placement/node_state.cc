// SPDX-License-Identifier: Apache-2.0
#include "extras/placement/node_state.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <utility>

namespace ppc::ctl {
namespace {

constexpr size_t kMaxEntries = 65536;
constexpr uint64_t kSmallShare = 32;  // of the memory: too little to prefer another node for

Json NumbersOf(const std::map<int, uint64_t>& numbers) {
  Json out = Json::object();
  for (const auto& [node, bytes] : numbers) out[std::to_string(node)] = bytes;
  return out;
}

std::string LastComponent(const std::string& path) {
  const std::string trimmed = path.substr(0, path.find_last_not_of('/') + 1);
  return trimmed.substr(trimmed.rfind('/') + 1);
}

Result<ModelState> ModelFromJson(const Json& json) {
  ModelState model;
  for (const auto& [key, out] : {std::pair{"model", &model.name}, std::pair{"path", &model.path},
                                 std::pair{"directory", &model.directory}}) {
    Result<std::string> text = JsonString(json, key, "");
    if (!text) return text.error();
    *out = *std::move(text);
  }
  if (model.name.empty()) return Error{EINVAL, "a model without a name"};
  for (const auto& [key, out] :
       {std::pair{"bytes", &model.bytes}, std::pair{"resident", &model.resident}}) {
    const Result<uint64_t> number = JsonSize(json, key, 0);
    if (!number) return number.error();
    *out = *number;
  }
  for (const auto& [key, out] :
       {std::pair{"template", &model.has_template}, std::pair{"artifacts", &model.has_artifacts}}) {
    const Result<bool> flag = JsonBool(json, key, false);
    if (!flag) return flag.error();
    *out = *flag;
  }
  const Json& nodes = JsonMember(json, "nodes");
  if (!nodes.is_object()) return Error{EINVAL, "'nodes' is no object"};
  for (const auto& [key, value] : nodes.items()) {
    int node = 0;
    const auto [end, ec] = std::from_chars(key.data(), key.data() + key.size(), node);
    const Result<uint64_t> bytes = JsonSize(nodes, key.c_str(), 0);
    if (ec != std::errc() || end != key.data() + key.size() || node < 0 || !bytes)
      return Error{EINVAL, "'nodes' has '" + key.substr(0, 32) + "'"};
    model.by_node[node] = *bytes;
  }
  return model;
}

Result<StartState> StartFromJson(const Json& json) {
  Result<std::string> id = JsonString(json, "service_id", "");
  if (!id) return id.error();
  Result<std::string> directory = JsonString(json, "directory", "");
  if (!directory) return directory.error();
  const Result<uint64_t> left = JsonSize(json, "left", 0);
  if (!left) return left.error();
  return StartState{*std::move(id), *std::move(directory), *left};
}

// Reads every element of an array member with `read`.
template <typename T>
Status ReadArray(const Json& json, const char* key, Result<T> (*read)(const Json&),
                 std::vector<T>* out) {
  if (!json.contains(key)) return Ok();
  const Json& array = json[key];
  if (!array.is_array() || array.size() > kMaxEntries)
    return Error{EINVAL, std::string("'") + key + "' is no list of at most 65536"};
  for (const Json& entry : array) {
    if (!entry.is_object()) return Error{EINVAL, std::string("'") + key + "' has no object"};
    Result<T> value = read(entry);
    if (!value) return value.error();
    out->push_back(*std::move(value));
  }
  return Ok();
}

Status Fill(const Json& json, NodeState* node) {
  const Result<uint64_t> schema = JsonSize(json, "schema", 1);
  if (!schema) return schema.error();
  if (*schema != 1)
    return Error{EINVAL, "'schema' " + std::to_string(*schema) + " is not known here"};
  Result<std::string> name = JsonString(json, "node", "");
  if (!name) return name.error();
  if (name->empty()) return Error{EINVAL, "'node' is missing"};
  node->name = *std::move(name);
  for (const auto& [key, out] :
       {std::pair{"memory_bytes", &node->memory}, std::pair{"free_bytes", &node->free}}) {
    const Result<uint64_t> number = JsonSize(json, key, 0);
    if (!number) return number.error();
    *out = *number;
  }
  const Json& rates = JsonMember(json, "disk_rates");
  if (!rates.is_object()) return Error{EINVAL, "'disk_rates' is no object"};
  for (const auto& [directory, value] : rates.items()) {
    const Result<uint64_t> rate = JsonSize(rates, directory.c_str(), 0);
    if (!rate) return rate.error();
    node->disk_rates[directory] = *rate;
  }
  if (Status read = ReadArray(json, "models", ModelFromJson, &node->models); !read) return read;
  return ReadArray(json, "starts", StartFromJson, &node->starts);
}

}  // namespace

Json ToJson(const NodeState& node) {
  Json models = Json::array();
  for (const ModelState& model : node.models) {
    Json entry{{"model", model.name},
               {"path", model.path},
               {"directory", model.directory},
               {"bytes", model.bytes},
               {"resident", model.resident},
               {"template", model.has_template},
               {"artifacts", model.has_artifacts}};
    if (!model.by_node.empty()) entry["nodes"] = NumbersOf(model.by_node);
    models.push_back(std::move(entry));
  }
  Json starts = Json::array();
  for (const StartState& start : node.starts) {
    starts.push_back(
        {{"service_id", start.service_id}, {"directory", start.directory}, {"left", start.left}});
  }
  return {{"schema", 1},
          {"node", node.name},
          {"memory_bytes", node.memory},
          {"free_bytes", node.free},
          {"disk_rates", Json(node.disk_rates)},
          {"models", std::move(models)},
          {"starts", std::move(starts)}};
}

bool IsNews(const NodeState& told, const NodeState& now) {
  const auto is_near = [&told](uint64_t before, uint64_t after) {
    return std::max(before, after) - std::min(before, after) <= told.memory / kSmallShare;
  };
  if (!is_near(told.memory, now.memory) || !is_near(told.free, now.free)) return true;
  NodeState same = now;
  same.memory = told.memory;
  same.free = told.free;
  return same != told;
}

Result<NodeState> NodeFromJson(const Json& json, const std::string& what) {
  if (!json.is_object()) return Error{EINVAL, what + ": no object"};
  NodeState node;
  if (const Status filled = Fill(json, &node); !filled)
    return Error{EINVAL, what + ": " + filled.error().message};
  return node;
}

const ModelState* FindModelOf(const NodeState& node, const std::string& wanted) {
  const auto is_wanted = [&wanted](const ModelState& model) {
    return model.name == wanted || model.path == wanted;
  };
  auto it = std::find_if(node.models.begin(), node.models.end(), is_wanted);
  if (it == node.models.end() && wanted.starts_with('/')) {
    it = std::find_if(
        node.models.begin(), node.models.end(),
        [name = LastComponent(wanted)](const ModelState& m) { return m.name == name; });
  }
  return it == node.models.end() ? nullptr : &*it;
}

ppc_place_node PlaceNodeOf(const NodeState& node, const std::string& model) {
  ppc_place_node out = {};
  out.size = sizeof(out);
  out.tie = ppc_place_tie(model.c_str(), node.name.c_str());
  const ModelState* found = FindModelOf(node, model);
  if (found == nullptr) return out;
  out.flags = (found->has_template ? PPC_PLACE_TEMPLATE : 0u) |
              (found->has_artifacts ? PPC_PLACE_ARTIFACTS : 0u);
  out.model_bytes = found->bytes;
  out.resident_bytes = found->resident;
  out.memory_bytes = node.memory;
  out.free_bytes = node.free;
  if (const auto rate = node.disk_rates.find(found->directory); rate != node.disk_rates.end())
    out.disk_rate = rate->second;
  // A start names its directory.  If that holds one model, it is the start of that model.
  const auto in_directory =
      std::count_if(node.models.begin(), node.models.end(),
                    [&](const ModelState& other) { return other.directory == found->directory; });
  bool are_all_known = true;
  for (const StartState& start : node.starts) {
    if (start.directory == found->directory && in_directory == 1) continue;
    ++out.busy_starts;
    out.busy_bytes += start.left;
    are_all_known = are_all_known && start.left != 0;
  }
  if (!are_all_known) out.busy_bytes = 0;
  return out;
}

std::string ReasonText(uint32_t reasons) {
  static constexpr std::array kTexts = {
      std::pair{PPC_PLACE_WHY_GONE, "gone"},
      std::pair{PPC_PLACE_WHY_NO_MODEL, "has no such model"},
      std::pair{PPC_PLACE_WHY_WARM, "all of it is in memory"},
      std::pair{PPC_PLACE_WHY_COLD, "nothing of it is in memory"},
      std::pair{PPC_PLACE_WHY_NO_TEMPLATE, "no template"},
      std::pair{PPC_PLACE_WHY_COMPILES, "no artifacts"},
      std::pair{PPC_PLACE_WHY_DISK_UNKNOWN, "disk not measured yet"},
      std::pair{PPC_PLACE_WHY_BUSY, "other start-ups read"},
      std::pair{PPC_PLACE_WHY_NO_ROOM, "does not fit into memory"},
      std::pair{PPC_PLACE_WHY_PUSHES_OUT, "pushes other models out"}};
  std::string text;
  for (const auto& [bit, words] : kTexts) {
    if ((reasons & bit) == 0) continue;
    text += (text.empty() ? "" : ", ") + std::string(words);
  }
  return text;
}

}  // namespace ppc::ctl
