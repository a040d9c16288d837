// SPDX-License-Identifier: Apache-2.0
#include "policies/maio/follow/status.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>

namespace ppc::maio {

using Json = nlohmann::json;

namespace {

// Loaded and not read by anybody, so far.
uint64_t OverPrefetched(const Layout& layout) {
  uint64_t unused = 0;
  for (const Piece& piece : layout.pieces()) {
    if ((piece.flags & kPrefetched) && !(piece.flags & kConsumed)) unused += piece.bytes();
  }
  return unused;
}

// Workers for which nothing is loaded, see CacheUse.
uint64_t WaitingWorkers(const StatusSources& followed) {
  uint64_t waiting = 0;
  for (uint32_t g = 0; g < followed.layout.groups().size(); g++) {
    const bool has_model = followed.layout.groups()[g].bytes != 0;
    waiting += has_model && followed.matcher.cursors()[g].waits ? 1 : 0;
  }
  return waiting;
}

unsigned long long ToPrint(uint64_t value) { return value; }

}  // namespace

uint64_t UnreadBytes(const Layout& layout) {
  uint64_t bytes = 0;
  for (const Piece& piece : layout.pieces()) {
    const bool is_small = layout.files()[piece.file].kind == FileKind::kSmall;
    if (!is_small && (piece.flags & (kConsumed | kMissed)) == 0) bytes += piece.bytes();
  }
  return bytes;
}

void Describe(const StatusSources& followed, Json* out) {
  Json& json = *out;
  const PlannerStats& plan = followed.planner.stats();
  const EvictorStats& evict = followed.evictor.stats();
  json["template_bytes"] = followed.template_bytes;
  const SmallFilesStats& small = followed.small.stats();
  if (small.files != 0) {
    json["small_files"] = small.files;
    json["small_bytes"] = small.bytes;
    json["small_asked"] = small.asked;
    json["small_loaded"] = small.loaded;
    json["small_redundant"] = small.redundant;
    json["small_missed"] = small.missed;
  }
  json["constrained"] = followed.is_constrained;
  json["waiting_workers"] = WaitingWorkers(followed);
  json["distance"] = followed.evictor.distance();
  json["beacon"] = followed.beacon_bytes;
  json["matched"] = followed.matcher.matched();
  json["unknown"] = followed.matcher.unknown();
  json["foreign"] = followed.matcher.foreign();
  json["unread"] = UnreadBytes(followed.layout);
  json["jumps"] = followed.matcher.jumps();
  json["swaps"] = followed.swaps;
  json["asked"] = plan.asked;
  json["loaded"] = plan.loaded;
  json["redundant"] = plan.redundant;
  json["interrupted"] = plan.interrupted;
  json["given_up"] = plan.given_up;
  json["released"] = evict.released;
  json["dropped"] = evict.dropped;
  json["unneeded"] = evict.unneeded;
  json["refaults"] = evict.refaults;
  json["device_mbps"] = followed.device.rate / 1'000'000;
  json["latency_us"] = followed.device.step_ns / 1000;
  json["over_prefetch"] = OverPrefetched(followed.layout);
  for (auto [node, bytes] : followed.node_bytes) json["node_bytes"][std::to_string(node)] = bytes;
  json["groups"] = Json::array();
  for (uint32_t g = 0; g < followed.layout.groups().size(); g++) {
    const Cursor& cursor = followed.matcher.cursors()[g];
    const std::optional<uint64_t> ahead = followed.planner.ReadyAhead(g);
    json["groups"].push_back({{"group", static_cast<int32_t>(followed.layout.groups()[g].id)},
                              {"xpu", followed.affinity.xpu(g)},
                              {"state", SyncName(cursor.state)},
                              {"front", cursor.pos},
                              {"consumed", cursor.consumed},
                              {"ahead", ahead ? Json(*ahead) : Json(nullptr)},
                              {"total", followed.layout.groups()[g].bytes}});
  }
}

void Stats(const StatusSources& followed) {
  const ppc_context* const context = followed.run.context;
  auto stat = [&](const char* name, uint64_t value) { context->stat(context, name, value); };
  const PlannerStats& plan = followed.planner.stats();
  const EvictorStats& evict = followed.evictor.stats();
  uint64_t consumed = 0;
  uint64_t total = 0;
  uint64_t state = 0;
  for (uint32_t g = 0; g < followed.layout.groups().size(); g++) {
    consumed += followed.matcher.cursors()[g].consumed;
    total += followed.layout.groups()[g].bytes;
    state = std::max(state, static_cast<uint64_t>(followed.matcher.cursors()[g].state));
  }
  const SmallFilesStats& small = followed.small.stats();
  stat("small_files", small.files);
  stat("small_asked_bytes", small.asked);
  stat("small_loaded_bytes", small.loaded);
  stat("small_missed_bytes", small.missed);
  stat("sync_state", state);
  stat("waiting_workers", WaitingWorkers(followed));
  stat("coverage_percent", total != 0 ? consumed * 100 / total : 0);
  stat("matched_events", followed.matcher.matched());
  stat("unknown_events", followed.matcher.unknown());
  stat("jumps", followed.matcher.jumps());
  stat("asked_bytes", plan.asked);
  stat("loaded_bytes", plan.loaded);
  stat("redundant_bytes", plan.redundant);
  stat("interrupted_bytes", plan.interrupted);
  stat("failed_bytes", plan.failed);
  stat("given_up_bytes", plan.given_up);
  stat("released_bytes", evict.released);
  stat("dropped_bytes", evict.dropped);
  stat("unneeded_bytes", evict.unneeded);
  stat("refault_bytes", evict.refaults);
  stat("device_mbps", followed.device.rate / 1'000'000);
  stat("latency_us", followed.device.step_ns / 1000);
  stat("distance_bytes", followed.evictor.distance());
  stat("unread_bytes", OverPrefetched(followed.layout));
  for (auto [node, bytes] : followed.node_bytes) {
    std::string name = node < 0 ? "any_node_bytes" : "node" + std::to_string(node) + "_bytes";
    stat(name.c_str(), bytes);
  }
}

void Trace(const StatusSources& followed, uint64_t now_ns) {
  for (uint32_t g = 0; g < followed.layout.groups().size(); g++) {
    const LayoutGroup& group = followed.layout.groups()[g];
    const Cursor& cursor = followed.matcher.cursors()[g];
    // Not through a JSON object: that would cost more than all events in
    // between.  A service ID has no character that needs quoting.
    char line[512];
    std::snprintf(line, sizeof(line),
                  R"({"evict":%llu,"front":%llu,"group":%d,"prefetch":%llu,"service":"%s",)"
                  R"("state":"%s","t":%llu,"total":%llu})",
                  ToPrint(followed.evictor.position(g)), ToPrint(cursor.pos),
                  static_cast<int32_t>(group.id),
                  ToPrint(std::max(followed.planner.horizon(g), cursor.pos)),
                  followed.run.spec.service_id.c_str(), SyncName(cursor.state), ToPrint(now_ns),
                  ToPrint(group.bytes));
    followed.run.context->trace(followed.run.context, line);
  }
}

}  // namespace ppc::maio
