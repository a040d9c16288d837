// SPDX-License-Identifier: Apache-2.0
#include "daemon/exec/auto_services.h"

#include "daemon/base/digests.h"
#include "daemon/base/files.h"
#include "daemon/base/log.h"
#include "daemon/machine/proc_info.h"

namespace ppc {
namespace {

// Stays the same from one run to the next.
std::string NameOf(const std::string& words) {
  constexpr size_t kDigits = 16;
  return "auto-" + Sha256Hex(words).substr(0, kDigits);
}

}  // namespace

std::optional<AutoServices::Identity> AutoServices::Identify(const SysRoots& roots,
                                                             const Process& reader) {
  if (!IsSameProcess(roots, reader.pid, reader.start_ns)) return std::nullopt;
  Identity found{reader, "", ""};
  // The leader may have gone, or be of another namespace.
  const std::optional<int> group = ProcessGroup(roots, reader.pid);
  const std::optional<uint64_t> start =
      group && *group > 0 ? ProcessStartNs(roots, *group) : std::nullopt;
  if (start) found.leader = {*group, *start};
  const std::string base = "/" + std::to_string(found.leader.pid);
  const Result<std::string> words = ReadFile(roots.Proc(base + "/cmdline"), 1 << 20);
  if (!words || words->empty()) return std::nullopt;  // a thread of the kernel
  found.id = NameOf(*words);
  const std::optional<std::string> cgroup = ProcessCgroup(roots, found.leader.pid);
  if (cgroup && *cgroup != "/" && Cgroup::Open(*cgroup, roots)) found.cgroup = *cgroup;
  return found;
}

bool AutoServices::Takes(const Event& event, uint64_t file_bytes) {
  if (!IsMiss(event.kind) || file_bytes < kLargeBytes || parts_.services->HasTold()) return false;
  if (questions_.size() >= kMaxProcesses) questions_.clear();
  Question& question = questions_[event.tgid];
  if (question.start_ns == event.start_ns) return !question.is_decided;
  question = {event.start_ns, live_.size() >= kMaxServices};
  if (question.is_decided) return false;
  wanted_.push_back({event.tgid, event.start_ns});
  return true;
}

void AutoServices::Decide() {
  for (const Process& reader : std::exchange(wanted_, {})) {
    auto identity = std::make_shared<std::optional<Identity>>();
    const bool is_taken = parts_.look_up(
        [roots = parts_.roots, reader, identity] { *identity = Identify(roots, reader); },
        [this, reader, identity] { Place(reader, *identity); });
    if (!is_taken) Decided(reader);
  }
}

// Whoever has the name may have ended just now: then it is his successor's.
void AutoServices::Place(const Process& reader, const std::optional<Identity>& identity) {
  const auto twin = identity ? live_.find(identity->id) : live_.end();
  if (twin == live_.end()) return Start(reader, identity);
  const bool is_taken =
      EndIfGone(twin->first, twin->second, [this, reader, identity] { Start(reader, identity); });
  if (!is_taken) Decided(reader);
}

// Then then(), whatever was found; false: nobody can look.  The name may have a successor's process
// by the time that is known.
bool AutoServices::EndIfGone(const std::string& id, const Process& leader,
                             std::function<void()> then) {
  auto is_there = std::make_shared<bool>(true);
  return parts_.look_up([roots = parts_.roots, is_there,
                         leader] { *is_there = IsSameProcess(roots, leader.pid, leader.start_ns); },
                        [this, is_there, id, leader, then = std::move(then)] {
                          const auto known = live_.find(id);
                          const bool is_its = known != live_.end() &&
                                              known->second.pid == leader.pid &&
                                              known->second.start_ns == leader.start_ns;
                          if (!*is_there && is_its) Stop(id);
                          then();
                        });
}

// The first is called by its command's name, others beside it are its replicas.  "": it has one.
std::string AutoServices::FreeName(const Identity& identity) const {
  std::string free;
  for (size_t replica = 1; replica <= kMaxServices; ++replica) {
    std::string id = identity.id + (replica == 1 ? "" : "." + std::to_string(replica));
    const auto known = live_.find(id);
    if (known == live_.end()) {
      if (free.empty()) free = std::move(id);
    } else if (known->second.pid == identity.leader.pid) {
      return "";
    }
  }
  return free;
}

void AutoServices::Start(const Process& reader, const std::optional<Identity>& identity) {
  if (!identity || parts_.services->HasTold()) return Decided(reader);
  const std::string id = FreeName(*identity);
  if (id.empty()) return Decided(reader);
  Json message{{"op", "service_start"},
               {"service_id", id},
               {"pid", identity->leader.pid},
               {"by_cgroup", false},
               {"auto", true}};
  if (id != identity->id) message["template"] = identity->id;
  live_[id] = identity->leader;
  if (!identity->cgroup.empty()) message["cgroup"] = identity->cgroup;
  parts_.control(std::move(message), [this, reader, id](const Result<Json>& answer) {
    const bool is_started = answer.ok();
    Log(is_started ? LogLevel::kInfo : LogLevel::kWarning, {"", id},
        "service " + id + " of process " + std::to_string(reader.pid) +
            ", of which nobody told: " + (is_started ? "started" : answer.error().message));
    parts_.elsewhere(nullptr, [this, reader, id, is_started] {
      if (!is_started) live_.erase(id);
      Decided(reader);
    });
  });
}

void AutoServices::Decided(const Process& reader) {
  questions_[reader.pid] = {reader.start_ns, /*is_decided=*/true};
  parts_.on_decided();
}

void AutoServices::Stop(const std::string& id) {
  live_.erase(id);
  parts_.control({{"op", "service_stop"}, {"service_id", id}, {"reason", "exit"}},
                 [](const Result<Json>&) {});
}

void AutoServices::EndGone() {
  for (const auto& [id, leader] : std::map(live_)) {  // one that ends leaves the list
    (void)EndIfGone(id, leader, [] {});
  }
}

void AutoServices::EndAll() {
  for (const auto& [id, leader] : std::exchange(live_, {})) Stop(id);
}

}  // namespace ppc
