// SPDX-License-Identifier: Apache-2.0
// A stand-in for ppc-runner that speaks the lines of descriptor 3 and
// misbehaves as the registration's config asks: {"fake": {...}}.
//   init: "refuse" | "crash" | "hang" | "gone" | "drop" | "babble"
//   crash_after_ms, drop_after_ms, gone_after_ms: ... after init
//   control: "refuse" | "crash" | "hang" | "unknown" | "late" (once a status has been answered)
//   stop: "hang"
//   refuse_again: true; every service_start but the first is refused
//   numbers: true; service_start is answered with the number of those before it
//   wait_s: service_failed is answered with it
//   slow: {op of a control message: ms until the first of it is answered}
//   memory: {"budget", "wants"}; it keeps as much of "wants" as its share is
//   reply: what the policy answers to every control message
//   status_ms: how long each answer to status takes; status: members of it
//   limits: what it says that its backend cannot do
//   log: file that takes every line received, before it is answered
//   says_at_ready: line that it sends after its answer to service_ready
//   lives_on: file; init crashes while it does not exist
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "daemon/base/clock.h"
#include "daemon/wire/exit_codes.h"

namespace {

using Json = nlohmann::json;

constexpr int kChannel = 3;

Json g_fake = Json::object();
uint64_t g_ready_ns = 0;
std::string g_late;  // an answer for after the next status

std::string Mode(const char* key) { return g_fake.value(key, std::string()); }

void Send(const std::string& text) {
  const std::string line = text + "\n";
  (void)!send(kChannel, line.data(), line.size(), MSG_NOSIGNAL);
}

[[noreturn]] void HangForever() {
  while (true) pause();
}

void Refuse(const char* code, const char* error) {
  Send(Json{{"ok", false}, {"code", code}, {"error", error}}.dump());
}

void HandleInit(const Json& request) {
  const std::string mode = Mode("init");
  if (mode == "refuse")
    return Refuse("EACCES", "policy x.so is writable by others; chmod o-w x.so");
  if (access(request.value("policy", "").c_str(), R_OK) != 0)
    return Refuse("ENOENT", "policy x.so: No such file or directory");
  if (mode == "crash") abort();
  if (mode == "hang") HangForever();
  if (mode == "gone") _exit(ppc::kExitMountGone);
  if (mode == "drop") {
    Send(R"({"event":"dropped","error":"ppc_tick threw"})");
    _exit(1);
  }
  if (mode == "babble") return Send("this is not JSON {{{");
  const std::string marker = Mode("lives_on");
  if (!marker.empty() && access(marker.c_str(), F_OK) != 0) _exit(9);
  g_ready_ns = ppc::MonotonicNs();
  std::string backend = request.value("backend", "none");
  const std::string mount = request.value("mount", "");
  if (backend == "auto") backend = mount == "/proc" || mount == "/sys" ? "kmod" : "observer";
  Send(Json{{"ok", true}, {"backend", backend}, {"limits", g_fake.value("limits", Json::array())}}
           .dump());
}

void HandleControl(const Json& request) {
  const std::string mode = Mode("control");
  const std::string op = request["message"].value("op", "");
  const int slow_ms = g_fake.value("slow", Json::object()).value(op, 0);
  if (slow_ms > 0) poll(nullptr, 0, slow_ms);
  if (slow_ms > 0) g_fake["slow"].erase(op);
  static int starts = 0;
  const bool is_again =
      op == "service_start" && starts++ > 0 && g_fake.value("refuse_again", false);
  if (mode == "refuse" || is_again)
    return Send(R"({"ok":true,"reply":{"error":"template is stale"}})");
  if (mode == "crash") abort();
  if (mode == "hang") HangForever();
  if (mode == "late") {
    g_late = Json{{"ok", true}, {"reply", Json::object()}, {"id", request.value("id", 0)}}.dump();
    return;
  }
  if (g_fake.contains("reply")) return Send(Json{{"ok", true}, {"reply", g_fake["reply"]}}.dump());
  if (mode == "unknown") return Refuse("EOPNOTSUPP", "the policy has no ppc_control");
  Json reply{{"mode", "record"}, {"echo", request["message"]}};
  if (op == "service_start" && g_fake.value("numbers", false)) reply["service"] = starts - 1;
  if (op == "service_failed" && g_fake.contains("wait_s")) reply["wait_s"] = g_fake["wait_s"];
  Send(Json{{"ok", true}, {"reply", std::move(reply)}}.dump());
  if (op == "service_ready" && g_fake.contains("says_at_ready")) {
    Send(g_fake["says_at_ready"].dump());
  }
}

// Takes what it may, at once; without "memory" it says that it has nothing.
void HandleMemory(const Json& request) {
  Json report{{"ok", true}, {"budget", 0u}, {"keeps", 0u}, {"wants", 0u}};
  if (g_fake.contains("memory")) {
    report.update(g_fake["memory"]);
    const auto wants = report["wants"].get<uint64_t>();
    report["keeps"] = std::min(wants, request.value("share", report["budget"].get<uint64_t>()));
  }
  Send(report.dump());
}

void HandleStatus(const Json& request) {
  poll(nullptr, 0, g_fake.value("status_ms", 0));
  Json status{{"ok", true}, {"id", request.value("id", 0)}, {"events", {{"read", 7}}}};
  status.update(g_fake.value("status", Json::object()));
  if (g_fake.contains("status_bytes"))
    status["filler"] = std::string(g_fake["status_bytes"].get<size_t>(), 'x');
  Send(status.dump());
  if (!g_late.empty()) Send(std::exchange(g_late, ""));
}

void Handle(const std::string& line) {
  const Json request = Json::parse(line);
  const std::string op = request["op"];
  if (op == "init") g_fake = request["config"].value("fake", Json::object());
  const std::string log = Mode("log");
  if (!log.empty()) std::ofstream(log, std::ios::app) << getpid() << " " << line << "\n";
  if (op == "init") HandleInit(request);
  if (op == "control") HandleControl(request);
  if (op == "ping") Send(R"({"ok":true})");
  if (op == "status") HandleStatus(request);
  if (op == "log") Send(Json{{"ok", true}, {"lines", g_fake.value("lines", Json::array())}}.dump());
  if (op == "memory") HandleMemory(request);
  if (op == "stop" && Mode("stop") == "hang") HangForever();
  if (op == "stop") {
    Send(R"({"ok":true})");
    _exit(0);
  }
}

bool IsDue(const char* key) {
  const auto it = g_fake.find(key);
  return g_ready_ns != 0 && it != g_fake.end() &&
         ppc::MonotonicNs() - g_ready_ns >= it->get<uint64_t>() * ppc::kNsPerMs;
}

void RunTimers() {
  if (IsDue("crash_after_ms")) abort();
  if (IsDue("gone_after_ms")) _exit(ppc::kExitMountGone);
  if (IsDue("drop_after_ms")) {
    Send(R"({"event":"dropped","error":"ppc_prefetch took longer than 1000 ms, twice"})");
    _exit(1);
  }
}

}  // namespace

int main() {
  prctl(PR_SET_DUMPABLE, 0);  // crashes here are on purpose
  std::string buffer;
  while (true) {
    pollfd channel{kChannel, POLLIN, 0};
    const bool has_timer = g_fake.contains("crash_after_ms") || g_fake.contains("gone_after_ms") ||
                           g_fake.contains("drop_after_ms");
    if (poll(&channel, 1, has_timer ? 10 : -1) > 0) {
      char data[4096];
      const ssize_t got = read(kChannel, data, sizeof(data));
      if (got <= 0) return 0;  // ppcd is gone
      buffer.append(data, static_cast<size_t>(got));
    }
    for (size_t end = buffer.find('\n'); end != std::string::npos; end = buffer.find('\n')) {
      const std::string line = buffer.substr(0, end);
      buffer.erase(0, end + 1);
      Handle(line);
    }
    RunTimers();
  }
}
