// SPDX-License-Identifier: Apache-2.0
//
// What a service tells of itself while it follows a template.
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "policies/maio/follow/following.h"

namespace ppc::maio {

using Json = nlohmann::json;

// Loaded and not read by anybody, so far.
uint64_t Following::OverPrefetched() const {
  uint64_t unused = 0;
  for (const Piece& piece : layout_->pieces()) {
    if ((piece.flags & kPrefetched) && !(piece.flags & kConsumed)) unused += piece.bytes();
  }
  return unused;
}

void Following::Describe(Json* out) const {
  Json& json = *out;
  const PlannerStats& plan = planner_->stats();
  const EvictorStats& evict = evictor_->stats();
  json["template_bytes"] = template_bytes();
  const SmallFilesStats& small = small_->stats();
  if (small.files != 0) {
    json["small_files"] = small.files;
    json["small_bytes"] = small.bytes;
    json["small_asked"] = small.asked;
    json["small_loaded"] = small.loaded;
    json["small_redundant"] = small.redundant;
    json["small_missed"] = small.missed;
  }
  json["constrained"] = constrained_;
  if (standby_bytes_ != 0) json["standby_bytes"] = standby_bytes_;
  json["distance"] = evictor_->distance();
  json["beacon"] = beacon_bytes_;
  json["matched"] = matcher_->matched();
  json["unknown"] = matcher_->unknown();
  json["jumps"] = matcher_->jumps();
  json["swaps"] = swaps_;
  json["asked"] = plan.asked;
  json["loaded"] = plan.loaded;
  json["redundant"] = plan.redundant;
  json["interrupted"] = plan.interrupted;
  json["released"] = evict.released;
  json["dropped"] = evict.dropped;
  json["unneeded"] = evict.unneeded;
  json["refaults"] = evict.refaults;
  json["device_mbps"] = stand_down_->device_rate() / 1'000'000;
  json["latency_us"] = stand_down_->step_ns() / 1000;
  json["standing_down"] = stand_down_->active();
  json["stand_downs"] = stand_down_->times();
  json["stood_down_ms"] = stand_down_->total_ns(run_->Now()) / 1'000'000;
  if (leftovers_ != nullptr) {
    json["leftovers"] = leftovers_->stats().found;
    json["leftovers_dropped"] = leftovers_->stats().dropped;
  }
  json["over_prefetch"] = OverPrefetched();
  for (auto [node, bytes] : node_bytes_) json["node_bytes"][std::to_string(node)] = bytes;
  json["groups"] = Json::array();
  for (uint32_t g = 0; g < layout_->groups().size(); g++) {
    const Cursor& cursor = matcher_->cursors()[g];
    const std::optional<uint64_t> ahead = planner_->ReadyAhead(g);
    json["groups"].push_back({{"group", static_cast<int32_t>(layout_->groups()[g].id)},
                              {"xpu", affinity_->xpu(g)},
                              {"state", SyncName(cursor.state)},
                              {"front", cursor.pos},
                              {"consumed", cursor.consumed},
                              {"ahead", ahead ? Json(*ahead) : Json(nullptr)},
                              {"total", layout_->groups()[g].bytes}});
  }
}

void Following::Stats() const {
  auto stat = [&](const char* name, uint64_t value) {
    run_->context->stat(run_->context, name, value);
  };
  const PlannerStats& plan = planner_->stats();
  const EvictorStats& evict = evictor_->stats();
  uint64_t consumed = 0;
  uint64_t total = 0;
  uint64_t state = 0;
  for (uint32_t g = 0; g < layout_->groups().size(); g++) {
    consumed += matcher_->cursors()[g].consumed;
    total += layout_->groups()[g].bytes;
    state = std::max(state, static_cast<uint64_t>(matcher_->cursors()[g].state));
  }
  const SmallFilesStats& small = small_->stats();
  stat("small_files", small.files);
  stat("small_asked_bytes", small.asked);
  stat("small_loaded_bytes", small.loaded);
  stat("small_missed_bytes", small.missed);
  stat("sync_state", state);
  stat("coverage_percent", total != 0 ? consumed * 100 / total : 0);
  stat("matched_events", matcher_->matched());
  stat("unknown_events", matcher_->unknown());
  stat("jumps", matcher_->jumps());
  stat("asked_bytes", plan.asked);
  stat("loaded_bytes", plan.loaded);
  stat("redundant_bytes", plan.redundant);
  stat("interrupted_bytes", plan.interrupted);
  stat("failed_bytes", plan.failed);
  stat("released_bytes", evict.released);
  stat("dropped_bytes", evict.dropped);
  stat("unneeded_bytes", evict.unneeded);
  stat("refault_bytes", evict.refaults);
  stat("device_mbps", stand_down_->device_rate() / 1'000'000);
  stat("latency_us", stand_down_->step_ns() / 1000);
  stat("standing_down", stand_down_->active() ? 1 : 0);
  stat("stand_downs", stand_down_->times());
  if (leftovers_ != nullptr) {
    stat("leftover_bytes", leftovers_->stats().found);
    stat("leftover_dropped_bytes", leftovers_->stats().dropped);
  }
  stat("distance_bytes", evictor_->distance());
  stat("unread_bytes", OverPrefetched());
  for (auto [node, bytes] : node_bytes_) {
    std::string name = node < 0 ? "any_node_bytes" : "node" + std::to_string(node) + "_bytes";
    stat(name.c_str(), bytes);
  }
}

}  // namespace ppc::maio
