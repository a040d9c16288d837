// SPDX-License-Identifier: Apache-2.0
//
// The end of a service's run, and what it tells about itself.
#include <cstdio>

#include "policies/maio/service.h"

namespace ppc::maio {

using Json = nlohmann::json;

Json Service::Ready() {
  if (mode_ == Mode::kRecord) {
    FinishRecording(kComplete);
  }
  if (follows()) {
    for (uint32_t g = 0; g < layout_->groups().size(); g++) matcher_->Rest(g);
    Trace(Now());
    Stats();
    evict_all_ = config_.bar && (config_.at_ready == AtReady::kAll ||
                                 (config_.at_ready == AtReady::kAuto && constrained_));
    Retire();
  }
  Json status = Status();
  mode_ = Mode::kIdle;
  return status;
}

Json Service::Stop() {
  if (mode_ == Mode::kRecord) FinishRecording(kPartial);
  if (follows()) Retire();
  Json status = Status();
  mode_ = Mode::kIdle;
  return status;
}

// The template fitted badly: record again next time.
void Service::Retire() {
  for (uint32_t g = 0; g < layout_->groups().size(); g++) {
    context_->interrupt_of(context_, spec_.number, g);
  }
  for (const auto& [file, unused] : native_files_) context_->file_native(context_, file, 0);
  native_files_.clear();
  if (mode_ == Mode::kRecord) return;  // a new one has just been stored
  uint64_t events = matcher_->matched() + matcher_->unknown();
  bool strange = events >= 64 && matcher_->unknown() * 10 > events;
  bool other = unlisted_bytes_ * 4 > layout_->bytes();
  if (config_.record == RecordMode::kNever || (!strange && !other)) return;
  std::string path = TemplatePath(context_->template_dir, spec_.service_id);
  std::string stale = path + ".stale";
  if (std::rename(path.c_str(), stale.c_str()) == 0) {
    reason_ = "the template fitted badly and was set aside; the next start records";
    Log(PPC_LOG_WARNING, "maio: service " + spec_.service_id + ": " + reason_);
  }
}

// Loaded and not read by anybody, so far.
uint64_t Service::OverPrefetched() const {
  uint64_t unused = 0;
  for (const Piece& piece : layout_->pieces()) {
    if ((piece.flags & kPrefetched) && !(piece.flags & kConsumed)) unused += piece.bytes();
  }
  return unused;
}

Json Service::Status() const {
  Json json = {{"service_id", spec_.service_id}, {"mode", ModeName(mode_)}, {"reason", reason_}};
  if (mode_ == Mode::kRecord) {
    json["recorded_bytes"] = recorder_->bytes();
    json["files"] = recorder_->files().size();
    json["processes"] = workers_.processes();
  }
  if (layout_ == nullptr) return json;
  const PlannerStats& plan = planner_->stats();
  const EvictorStats& evict = evictor_->stats();
  json["template_bytes"] = layout_->bytes();
  json["generation"] = generation_;
  json["stale_files"] = stale_files_;
  json["synthesized_files"] = synthesized_files_;
  json["constrained"] = constrained_;
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
  json["stood_down_ms"] = stand_down_->total_ns(Now()) / 1'000'000;
  if (leftovers_ != nullptr) {
    json["leftovers"] = leftovers_->stats().found;
    json["leftovers_dropped"] = leftovers_->stats().dropped;
  }
  json["over_prefetch"] = OverPrefetched();
  for (auto [node, bytes] : node_bytes_) json["node_bytes"][std::to_string(node)] = bytes;
  json["groups"] = Json::array();
  for (uint32_t g = 0; g < layout_->groups().size(); g++) {
    const Cursor& cursor = matcher_->cursors()[g];
    json["groups"].push_back({{"group", static_cast<int32_t>(layout_->groups()[g].id)},
                              {"xpu", affinity_->xpu(g)},
                              {"state", SyncName(cursor.state)},
                              {"front", cursor.pos},
                              {"consumed", cursor.consumed},
                              {"total", layout_->groups()[g].bytes}});
  }
  return json;
}

void Service::Stats() const {
  auto stat = [&](const char* name, uint64_t value) { context_->stat(context_, name, value); };
  stat("mode", static_cast<uint64_t>(mode_));
  if (mode_ == Mode::kRecord) stat("recorded_bytes", recorder_->bytes());
  if (layout_ == nullptr) return;
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
