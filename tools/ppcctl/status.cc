// SPDX-License-Identifier: Apache-2.0
// ppcctl list and status.
#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "tools/ppcctl/daemon_link.h"
#include "tools/ppcctl/spec.h"
#include "tools/ppcctl/text.h"
#include "tools/ppcctl/verbs.h"

namespace ppc::ctl {
namespace {

constexpr unsigned kPolicyTimeoutMs = 1000;

std::string Text(const Json& object, const char* key, const std::string& fallback = "-") {
  const auto it = object.find(key);
  if (it == object.end() || it->is_null()) return fallback;
  return it->is_string() ? it->get<std::string>() : DumpJson(*it);
}

bool IsNothing(const Json& value) {
  return value.is_null() || value == 0 || value == "" || value == false || value == Json::array();
}

using Rows = std::vector<std::vector<std::string>>;

// Nested objects by dotted names, so are lists of objects; what is zero or empty is left to --json.
void AddCounters(const Json& value, const std::string& name, Rows& rows) {
  const auto below = [&name](const std::string& key) {
    return name.empty() ? key : name + "." + key;
  };
  if (value.is_object()) {
    for (const auto& [key, member] : value.items()) AddCounters(member, below(key), rows);
    return;
  }
  if (value.is_array() && !value.empty() && value[0].is_object()) {
    for (size_t i = 0; i < value.size(); ++i) AddCounters(value[i], below(std::to_string(i)), rows);
    return;
  }
  if (IsNothing(value)) return;
  const std::string text = value.is_number_unsigned() ? HumanCounter(name, value.get<uint64_t>())
                           : value.is_string()        ? value.get<std::string>()
                                                      : DumpJson(value);
  rows.push_back({"    " + name, text});
}

// What MAIO's words mean; another policy's are printed as they are.
std::string ModeInWords(const std::string& mode) {
  static const std::map<std::string, std::string> kWords = {
      {"record", "recording"},
      {"use", "following what was recorded"},
      {"starting", "looking for what was recorded"},
      {"serving", "loaded"},
      {"native", "not loading"}};
  const auto word = kWords.find(mode);
  return word == kWords.end() ? mode : word->second;
}

// Policies answer root alone; another does without, as does who is not answered soon.
void AddModes(DaemonLink& link, Json& mount) {
  const auto services = mount.find("services");
  if (Text(mount, "state") != "running" || services == mount.end() || services->empty()) return;
  if (JsonMember(mount, "runner").contains("waits_for")) return;
  const Result<Json> answer =
      link.Ask({{"op", "policy"}, {"mount", mount["mount"]}, {"message", {{"op", "status"}}}});
  if (!answer) return;
  for (const Json& known : JsonMember(JsonMember(*answer, "reply"), "services")) {
    for (Json& service : *services) {
      if (JsonMember(service, "service_id") != JsonMember(known, "service_id")) continue;
      for (const char* key : {"mode", "processes"}) {
        if (known.contains(key)) service[key] = known[key];
      }
    }
  }
}

void PrintService(const Json& service, const std::string& guard) {
  std::printf("  service %s  %s", Text(service, "service_id").c_str(),
              Text(service, "state").c_str());
  if (service.contains("mode")) std::printf("  %s", ModeInWords(Text(service, "mode")).c_str());
  // A policy that was not told their number tells how many have read.
  for (const char* count : {"workers", "processes"}) {
    if (Text(service, count, "0") == "0") continue;
    std::printf("  %s %s", count, Text(service, count).c_str());
    break;
  }
  if (service.contains("xpus")) std::printf("  xpus %s", Text(service, "xpus").c_str());
  if (service.contains("cgroup")) std::printf("  cgroup %s", Text(service, "cgroup").c_str());
  if (service.contains("pid")) std::printf("  pid %s", Text(service, "pid").c_str());
  std::printf("\n");
  if (service.contains("params")) std::printf("    %s\n", DumpJson(service["params"]).c_str());
  if (!guard.empty()) std::printf("    guard %s\n", guard.c_str());
}

// What the guard withholds, by service ID; "" stands for readers without a service.
std::map<std::string, std::string> GuardLines(const Json& mount) {
  std::map<std::string, std::string> lines;
  for (const Json& service : JsonMember(JsonMember(mount, "runner"), "services")) {
    const std::string line = GuardLine(service);
    if (!line.empty()) lines[Text(service, "service_id", "")] = line;
  }
  return lines;
}

void PrintServices(const Json& mount) {
  std::map<std::string, std::string> guards = GuardLines(mount);
  for (const Json& service : mount.value("services", Json::array())) {
    const auto guard = guards.extract(Text(service, "service_id"));
    PrintService(service, guard.empty() ? "" : guard.mapped());
  }
  // Services that began by themselves are the runner's alone.
  for (const auto& [id, guard] : guards)
    std::printf("  %s%sguard %s\n", id.c_str(), id.empty() ? "" : "  ", guard.c_str());
}

void PrintMount(const Json& mount) {
  std::printf("%s  %s  %s", Text(mount, "mount").c_str(), Text(mount, "policy").c_str(),
              Text(mount, "state").c_str());
  if (mount.contains("pid")) std::printf("  pid %s", Text(mount, "pid").c_str());
  if (mount.contains("backend")) std::printf("  backend %s", Text(mount, "backend").c_str());
  if (mount.contains("device")) std::printf("  device %s", Text(mount, "device").c_str());
  if (Text(mount, "restarts", "0") != "0") {
    std::printf("  restarts %s", Text(mount, "restarts").c_str());
  }
  std::printf("\n");
  const std::string last_error = Text(mount, "last_error", "");
  if (!last_error.empty()) std::printf("  last error: %s\n", last_error.c_str());
  // The runner's own are of now, those that ppcd keeps of its start.
  const Json& known = JsonMember(JsonMember(mount, "runner"), "limits");
  for (const Json& limit : known.is_array() ? known : mount.value("limits", Json::array())) {
    std::printf("  limit: %s\n", limit.is_string() ? limit.get<std::string>().c_str() : "-");
  }
  PrintServices(mount);
  for (const char* part : {"kernel", "runner"}) {
    if (!mount.contains(part)) continue;
    Rows rows;
    AddCounters(mount[part], "", rows);
    std::printf("  %s\n%s", part, Table(rows).c_str());
  }
}

bool HasFailed(const Json& mount) {
  const std::string state = Text(mount, "state");
  return state == "failed" || state == "unresponsive";
}

}  // namespace

int List(const Args&) {
  const Outcome outcome = AskOnce({{"op", "list"}});
  if (outcome.exit_status != kExitOk) return outcome.exit_status;
  const Json mounts = outcome.answer.value("mounts", Json::array());
  if (WantsJson()) {
    PrintJson({{"mounts", mounts}});
    return kExitOk;
  }
  Rows rows;
  for (const Json& mount : mounts) {
    rows.push_back({Text(mount, "mount"), Text(mount, "policy"), Text(mount, "state")});
  }
  std::printf("%s", Table(rows).c_str());
  return kExitOk;
}

int ShowStatus(const Args& args) {
  Json request{{"op", "status"}};
  if (!args.operands.empty()) {
    const Result<std::string> mount = ReadMount(args);
    if (!mount) return WrongUsage(mount.error().message);
    request["mount"] = *mount;
  }
  DaemonLink link;
  Result<Json> asked = link.Ask(request);
  if (!asked) return link.Report(asked.error());
  Json& answer = *asked;
  if (answer.contains("mounts") && Text(answer, "rights") != "service") {
    DaemonLink policies(kPolicyTimeoutMs);
    for (Json& mount : answer["mounts"]) AddModes(policies, mount);
  }
  const Json mounts = answer.value("mounts", Json::array());
  const bool is_well = std::none_of(mounts.begin(), mounts.end(), HasFailed);
  if (WantsJson()) {
    answer.erase("ok");
    PrintJson(answer);
    return is_well ? kExitOk : kExitFailed;
  }
  const Json daemon = answer.value("daemon", Json::object());
  const bool is_off = daemon.value("off", false);
  std::printf("ppcd %s, pid %s, up %s%s\n", Text(daemon, "version").c_str(),
              Text(daemon, "pid").c_str(), HumanSeconds(daemon.value("uptime_s", 0.0)).c_str(),
              is_off ? "; off: all directories are the kernel's alone, until `ppcctl on`" : "");
  if (mounts.empty() && !is_off && args.operands.empty()) {
    std::printf("nothing is registered: ppcctl reg_policy DIR maio, or ppcctl run DIR -- CMD\n");
  }
  for (const Json& mount : mounts) PrintMount(mount);
  return is_well ? kExitOk : kExitFailed;
}

}  // namespace ppc::ctl
