// SPDX-License-Identifier: Apache-2.0
#include "extras/watch/service_view.h"

#include <algorithm>

#include "daemon/base/json.h"
#include "tools/ppcctl/text.h"

namespace ppc::ctl {
namespace {

double Ratio(uint64_t part, uint64_t whole) {
  return whole == 0 ? -1 : static_cast<double>(std::min(part, whole)) / static_cast<double>(whole);
}

uint64_t Grown(uint64_t before, uint64_t now) { return now > before ? now - before : 0; }

WorkerView WorkerOf(const Json& group) {
  WorkerView worker{JsonCount(group, "consumed"), JsonCount(group, "total"), std::nullopt};
  if (JsonMember(group, "ahead").is_number_integer()) worker.ahead = JsonCount(group, "ahead");
  return worker;
}

// A worker that has read all has nothing ahead.
bool HasGap(const WorkerView& worker) { return worker.ahead && worker.consumed < worker.total; }

void AddSlack(const ServiceView& before, const ServiceView& now, double seconds,
              ServiceRates* rates) {
  for (size_t i = 0; i < now.workers.size(); ++i) {
    const WorkerView& worker = now.workers[i];
    if (!HasGap(worker)) continue;
    const auto ahead = static_cast<double>(*worker.ahead);
    if (rates->slack_bytes < 0 || ahead < rates->slack_bytes) rates->slack_bytes = ahead;
    const uint64_t read =
        i < before.workers.size() ? Grown(before.workers[i].consumed, worker.consumed) : 0;
    if (read == 0 || seconds <= 0) continue;
    const double lasts_s = ahead * seconds / static_cast<double>(read);
    if (rates->slack_s < 0 || lasts_s < rates->slack_s) rates->slack_s = lasts_s;
  }
  // A policy that does not tell of gaps may have any.
  rates->is_all_loaded = rates->slack_bytes < 0 && now.tells_slack && now.consumed < now.sequence;
  if (rates->is_all_loaded) rates->slack_bytes = static_cast<double>(now.sequence - now.consumed);
}

}  // namespace

View ViewOf(const Json& status) {
  View view;
  for (const Json& mount : JsonMember(status, "mounts")) {
    DirectoryView& directory = view[JsonText(mount, "mount")];
    directory.state = JsonText(mount, "state");
    directory.policy = JsonText(mount, "policy");
    directory.last_error = JsonText(mount, "last_error");
    directory.restarts = JsonCount(mount, "restarts");
    const Json& runner = JsonMember(mount, "runner");
    directory.miss_bytes = JsonCount(JsonMember(runner, "events"), "miss_bytes");
    directory.lost = JsonCount(JsonMember(runner, "device"), "events_lost");
    directory.device_rate =
        static_cast<double>(JsonCount(JsonMember(runner, "loader"), "device_mbps")) * 1e6;
    for (const Json& service : JsonMember(mount, "services")) {
      ServiceView& seen = directory.services[JsonText(service, "service_id")];
      seen.state = JsonText(service, "state");
      seen.resident = JsonCount(runner, "own_cache");
    }
    for (const Json& service : JsonMember(runner, "services")) {
      // ppcd does not know automatic services.
      if (JsonMember(service, "auto") == true) {
        ServiceView& seen = directory.services[JsonText(service, "service_id")];
        seen.state = "auto";
        seen.resident = JsonCount(runner, "own_cache");
      }
      const auto it = directory.services.find(JsonText(service, "service_id"));
      const Json& memory = JsonMember(service, "memory");
      const Json& is_own = JsonMember(memory, "is_cgroup");
      if (it == directory.services.end()) continue;
      it->second.guard = GuardLine(service);
      if (is_own != true) continue;
      it->second.resident = JsonCount(memory, "cache");
    }
  }
  return view;
}

void AddPolicyStatus(const Json& reply, DirectoryView& directory) {
  for (const Json& service : JsonMember(reply, "services")) {
    const auto it = directory.services.find(JsonText(service, "service_id"));
    if (it == directory.services.end()) continue;
    ServiceView& seen = it->second;
    seen.mode = JsonText(service, "mode");
    seen.total = JsonCount(service, "template_bytes");
    seen.loaded = JsonCount(service, "loaded");
    seen.redundant = JsonCount(service, "redundant");
    seen.recorded = JsonCount(service, "recorded_bytes");
    for (const Json& phase : JsonMember(service, "phases"))
      seen.phases.emplace_back(JsonText(phase, "phase"), JsonCount(phase, "ms"));
    for (const Json& group : JsonMember(service, "groups")) {
      seen.consumed += JsonCount(group, "consumed");
      seen.sequence += JsonCount(group, "total");
      seen.tells_slack = group.contains("ahead");
      seen.workers.push_back(WorkerOf(group));
    }
  }
}

Result<View> LookAtServices(DaemonLink& link, const std::string& mount, bool ask_policies) {
  Json request{{"op", "status"}};
  if (!mount.empty()) request["mount"] = mount;
  const Result<Json> status = link.Ask(request);
  if (!status) return status.error();
  View view = ViewOf(*status);
  // Policies answer root alone.
  if (JsonText(*status, "rights") == "service") return view;
  for (auto& [path, directory] : view) {
    if (!ask_policies || directory.services.empty() || directory.state != "running") continue;
    const Result<Json> answer =
        link.Ask({{"op", "policy"}, {"mount", path}, {"message", {{"op", "status"}}}});
    if (answer) AddPolicyStatus(JsonMember(*answer, "reply"), directory);
  }
  return view;
}

ServiceRates RatesOf(const DirectoryView& before, const DirectoryView& now, const std::string& id,
                     double seconds) {
  ServiceRates rates;
  const ServiceView& service = now.services.at(id);
  rates.progress = Ratio(service.consumed, service.sequence);
  const auto it = before.services.find(id);
  AddSlack(it == before.services.end() ? service : it->second, service, seconds, &rates);
  if (it == before.services.end() || seconds <= 0) return rates;
  rates.load_rate = static_cast<double>(Grown(it->second.loaded, service.loaded)) / seconds;
  uint64_t read = 0;
  for (const auto& [other_id, other] : now.services) {
    const auto old = before.services.find(other_id);
    if (old != before.services.end()) read += Grown(old->second.consumed, other.consumed);
  }
  const double missed = Ratio(Grown(before.miss_bytes, now.miss_bytes), read);
  rates.hit_share = missed < 0 ? -1 : 1 - missed;
  const uint64_t done = service.loaded + service.redundant;
  if (service.total <= done && service.total != 0) {
    rates.left_s = 0;
  } else if (service.total != 0 && rates.load_rate > 0) {
    rates.left_s = static_cast<double>(service.total - done) / rates.load_rate;
  }
  return rates;
}

}  // namespace ppc::ctl
