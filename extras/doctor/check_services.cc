// SPDX-License-Identifier: Apache-2.0
// Causes in a service: its cgroup, its limits, its template.
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <sstream>
#include <system_error>

#include "daemon/base/files.h"
#include "daemon/machine/cgroup.h"
#include "daemon/machine/io_limit.h"
#include "daemon/machine/proc_info.h"
#include "extras/doctor/checks.h"
#include "extras/templates/stale_files.h"
#include "policies/maio/template/template.h"
#include "tools/ppcctl/text.h"

namespace ppc::ctl {
namespace {

namespace fs = std::filesystem;

// With less page cache, loading ahead is pointless.
constexpr uint64_t kMinRoom = 64 << 20;
// Events of a template's files that it did not predict, before it counts as another loader's: half
// of MAIO's own limit.
constexpr uint64_t kMinUnknownEvents = 32;
// Bytes after which a reader's pace is known, and a distance that it reads in no time.
constexpr uint64_t kKnownRateBytes = 16 << 20;
constexpr uint64_t kCaughtUpBytes = 4 << 20;

// The element of `list` with this service ID.
const Json& OfService(const Json& list, const std::string& id) {
  static const Json kNothing = Json::object();
  for (const Json& each : list) {
    if (each.is_object() && each.value("service_id", "") == id) return each;
  }
  return kNothing;
}

struct CheckedService {
  const SystemSnapshot& snapshot;
  const DirectorySnapshot& dir;
  const Json& service;  // from ppcd
  const Json& runner;   // from its runner
  std::string id;
  std::string about;
};

void CheckCgroup(const CheckedService& checked, Findings* out) {
  const int pid = checked.service.value("pid", 0);
  const std::string told = checked.service.value("cgroup", "");
  const std::string real =
      pid > 0 ? ProcessCgroup(checked.snapshot.roots, pid).value_or("") : std::string();
  if (told.empty() || real.empty()) return;
  const Result<Cgroup> group = Cgroup::Open(told, checked.snapshot.roots);
  if (!group || group->Contains(real)) return;
  const std::string root = ShellWord(checked.dir.parent);
  out->push_back({"wrong-cgroup", checked.about,
                  "its process " + std::to_string(pid) + " runs in cgroup " + real +
                      ", what is loaded is charged to " + told,
                  "ppcctl service stop " + root + " --id " + checked.id +
                      " && ppcctl service start " + root + " --id " + checked.id + " --workers " +
                      std::to_string(std::max(1, checked.service.value("workers", 1))) + " --pid " +
                      std::to_string(pid) + " --cgroup " + ShellWord(real),
                  true});
}

void CheckMemory(const CheckedService& checked, Findings* out) {
  const Json& memory = JsonMember(checked.runner, "memory");
  if (!memory.value("is_cgroup", false)) return;
  const uint64_t limit = memory.value("limit", uint64_t{0});
  const uint64_t used = memory.value("used", uint64_t{0});
  const uint64_t cache = memory.value("cache", uint64_t{0});
  const uint64_t held = used - std::min(cache, used);
  const uint64_t room = limit - std::min(held, limit);
  if (limit == 0 || room >= std::max(kMinRoom, limit / 20)) return;
  const std::string cgroup = checked.runner.value("cgroup", "");
  std::error_code error;
  const bool is_v2 = fs::exists(cgroup + "/memory.max", error);
  out->push_back({"cgroup-limit", checked.about,
                  "its cgroup may use " + HumanBytes(limit) + ", and its processes hold " +
                      HumanBytes(held) + " of that: " + HumanBytes(room) +
                      " are left for the cache",
                  "echo " + std::to_string(2 * limit) + " > " +
                      ShellWord(cgroup + (is_v2 ? "/memory.max" : "/memory.limit_in_bytes")),
                  true});
}

// On v1 both files: either may be the limit.
std::string LiftCommand(const IoLevel& level) {
  const std::string device =
      std::to_string(level.device.major) + ":" + std::to_string(level.device.minor);
  const auto write = [&level](const std::string& line, const char* file) {
    return "echo '" + line + "' > " + ShellWord(level.directory + file);
  };
  std::error_code error;
  if (fs::exists(level.directory + "/io.max", error)) {
    return write(device + " rbps=max riops=max", "/io.max");
  }
  return write(device + " 0", "/blkio.throttle.read_bps_device") + " && " +
         write(device + " 0", "/blkio.throttle.read_iops_device");
}

void CheckReadLimit(const CheckedService& checked, Findings* out) {
  const std::string cgroup = checked.service.value("cgroup", "");
  struct stat info {};
  if (cgroup.empty() || stat(checked.dir.path.c_str(), &info) != 0) return;
  const Result<Cgroup> group = Cgroup::Open(cgroup, checked.snapshot.roots);
  if (!group) return;
  IoLimit limits(checked.snapshot.roots, group->path());
  uint64_t rate = 0;
  std::string lift;
  for (const IoLevel& level : limits.Read({major(info.st_dev), minor(info.st_dev)})) {
    if (level.rate == 0) continue;
    rate = rate == 0 ? level.rate : std::min(rate, level.rate);
    lift += (lift.empty() ? "" : " && ") + LiftCommand(level);
  }
  if (rate == 0) return;
  out->push_back(
      {"io-limit", checked.about,
       "its cgroup may read " + HumanBytes(rate) + " a second from the disk, whoever reads", lift,
       true});
}

void CheckTemplate(const CheckedService& checked, Findings* out) {
  const std::string& store = checked.snapshot.template_dir;
  const std::string file = maio::TemplatePath(store, checked.id);
  maio::Template known;
  std::string problem;
  std::error_code error;
  if (file.empty() || !fs::exists(file, error)) return;
  if (maio::Load(file, &known, &problem) != 0) {
    out->push_back({"template-damaged", checked.about, "its template cannot be used: " + problem,
                    "ppcctl template rm " + checked.id + " --dir " + ShellWord(store), true});
    return;
  }
  const Json stale = StaleFiles(known, checked.dir.parent);
  if (!stale.empty()) {
    out->push_back({"template-stale", checked.about,
                    std::to_string(stale.size()) + " of the " + std::to_string(known.files.size()) +
                        " files that were recorded have changed, such as " +
                        stale[0].value("path", "") + ": " + stale[0].value("problem", ""),
                    "ppcctl template rm " + checked.id + " --dir " + ShellWord(store), true});
    return;
  }
  const Json& follows = OfService(JsonMember(checked.dir.policy, "services"), checked.id);
  const uint64_t matched = follows.value("matched", uint64_t{0});
  const uint64_t unknown = follows.value("unknown", uint64_t{0});
  if ((known.flags & maio::kProvisional) != 0 || unknown < kMinUnknownEvents ||
      unknown < matched / 4) {
    return;
  }
  out->push_back({"template-differs", checked.about,
                  "of " + std::to_string(unknown + matched) + " places in its files where it " +
                      "read, " + std::to_string(unknown) +
                      " are not in its template: that was recorded of another loader or split",
                  "ppcctl template rerecord " + checked.id + " --dir " + ShellWord(store), true});
}

// Whether it has read much of its list and has reached pages that are not loaded yet.
bool HasCaughtUp(const Json& group) {
  const uint64_t consumed = group.value("consumed", uint64_t{0});
  const Json& ahead = JsonMember(group, "ahead");
  return group.value("state", "") == "SYNC" && consumed >= kKnownRateBytes &&
         consumed < group.value("total", uint64_t{0}) && ahead.is_number_integer() &&
         ahead.get<uint64_t>() < kCaughtUpBytes;
}

void CheckDeviceRate(const CheckedService& checked, Findings* out) {
  const Json& follows = OfService(JsonMember(checked.dir.policy, "services"), checked.id);
  const uint64_t rate = follows.value("device_mbps", uint64_t{0});
  // Pieces cached before count as absent until the loads have reached them.
  const uint64_t loaded = follows.value("loaded", uint64_t{0});
  const bool is_from_disk =
      loaded >= kKnownRateBytes && loaded > follows.value("redundant", uint64_t{0});
  const Json& groups = JsonMember(follows, "groups");
  if (rate == 0 || !is_from_disk || std::none_of(groups.begin(), groups.end(), HasCaughtUp)) return;
  out->push_back({"device-slow", checked.about,
                  "its readers have caught up with what is loaded and wait for the disk, which "
                  "gives " +
                      std::to_string(rate) +
                      " MB/s: only a faster one helps, or loading before they begin",
                  "ppcctl warm " + ShellWord(checked.dir.parent) + " --id " + checked.id, false});
}

// Registering with another policy or option resets the guard.
std::string GuardRemedy(const SystemSnapshot& snapshot, const DirectorySnapshot& dir,
                        const std::string& id, bool is_of_drops) {
  const std::string again = "ppcctl rm_policy " + ShellWord(dir.parent) + " && ppcctl reg_policy " +
                            ShellWord(dir.parent) + " ";
  if (dir.mount.value("policy", "") != "maio") return again + "maio";
  if (is_of_drops) return again + R"(maio '{"bar": false}')";
  const std::string file = id.empty() ? "" : maio::TemplatePath(snapshot.template_dir, id);
  std::error_code error;
  if (file.empty() || !fs::exists(file, error)) return again + R"(maio '{"prefetch": false}')";
  return "ppcctl template rerecord " + id + " --dir " + ShellWord(snapshot.template_dir);
}

void CheckGuard(const SystemSnapshot& snapshot, const DirectorySnapshot& dir, Findings* out) {
  for (const Json& service : JsonMember(JsonMember(dir.mount, "runner"), "services")) {
    const std::string line = GuardLine(service);
    if (line.empty()) continue;
    const Json& guard = JsonMember(service, "guard");
    const std::string id = service.value("service_id", "");
    const std::string state = guard.value("state", "");
    const bool is_of_drops =
        state.find("no_unmap") != state.npos || state.find("no_drops") != state.npos;
    const std::string about = dir.parent + (id.empty() ? "" : " " + id);
    if (state == "read_errors") {
      out->push_back({"read-errors", about,
                      guard.value("reason", "") + "; what cannot be read is left to its readers",
                      "journalctl -k --grep 'I/O error'", true});
      continue;
    }
    const auto refused = [&guard](const char* key) {
      return HumanBytes(guard.value(key, uint64_t{0}));
    };
    out->push_back({"guard-limits", about,
                    "the guard limits what its policy does, " + line +
                        "; it has refused drops of " + refused("refused_drop_bytes") +
                        " and loads of " + refused("refused_load_bytes"),
                    GuardRemedy(snapshot, dir, id, is_of_drops), true});
  }
}

}  // namespace

void CheckServices(const SystemSnapshot& snapshot, const DirectorySnapshot& dir, Findings* out) {
  if (!dir.mount.is_object()) return;
  const Json& runner = JsonMember(dir.mount, "runner");
  for (const Json& service : JsonMember(dir.mount, "services")) {
    const std::string id = service.value("service_id", "");
    const CheckedService checked{snapshot, dir,
                                 service,  OfService(JsonMember(runner, "services"), id),
                                 id,       dir.parent + " " + id};
    CheckCgroup(checked, out);
    CheckMemory(checked, out);
    CheckReadLimit(checked, out);
    CheckTemplate(checked, out);
    CheckDeviceRate(checked, out);
  }
  CheckGuard(snapshot, dir, out);
  const uint64_t lost = JsonMember(runner, "device").value("events_lost", uint64_t{0});
  const uint64_t sent = JsonMember(runner, "device").value("events_queued", uint64_t{0});
  if (lost > sent / 100) {
    out->push_back({"events-lost", dir.parent,
                    std::to_string(lost) + " events were lost beside " + std::to_string(sent) +
                        " that were sent: its runner had no CPU",
                    "ppcctl rm_policy " + ShellWord(dir.parent) + " && ppcctl reg_policy " +
                        ShellWord(dir.parent) + " " + dir.mount.value("policy", ""),
                    true});
  }
}

}  // namespace ppc::ctl
