// SPDX-License-Identifier: Apache-2.0
#include "daemon/supervisor/status_page.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/machine/mount_table.h"

namespace ppc::control {
namespace {

const std::string& MountOf(const Json& object) {
  return object.at("mount").get_ref<const std::string&>();
}

// By path: not as they were registered, or their runners have answered.
Json InOrder(Json mounts) {
  std::sort(mounts.begin(), mounts.end(),
            [](const Json& a, const Json& b) { return MountOf(a) < MountOf(b); });
  return mounts;
}

// Messages name their directory; "/m" is not "/models", but "/m/below" is another's, too.
bool IsAbout(const std::string& text, const std::string& path) {
  for (size_t at = text.find(path); at != std::string::npos; at = text.find(path, at + 1)) {
    const char before = at == 0 ? ' ' : text[at - 1];
    const size_t end = at + path.size();
    const char after = end < text.size() ? text[end] : ' ';
    const bool starts = before == ' ' || before == '\'' || before == '"' || before == '(';
    if (path.empty() || (starts && std::string(" :;,'\")").find(after) != std::string::npos)) {
      return true;
    }
  }
  return false;
}

}  // namespace

Json StatusPage::Native() const {
  Json list = Json::array();
  for (const MountInfo& mount : probe_.All()) {
    if (registrations_.FindByKey(mount.Key()) != nullptr) continue;
    list.push_back(
        {{"mount", mount.path}, {"device", mount.Key()}, {"policy", nullptr}, {"state", "native"}});
  }
  return list;
}

Json StatusPage::Remembered() const {
  return off_switch_.is_off() ? saved_.Describe() : Json::array();
}

void StatusPage::List(const Reply& reply) const {
  Json list = Json::array();
  for (const auto& [key, registration] : registrations_.all()) {
    list.push_back({{"mount", registration->mount().path},
                    {"backend", registration->Backend()},
                    {"policy", registration->choice().name},
                    {"state", registration->ShownState()}});
  }
  for (Json& native : Native()) list.push_back(std::move(native));
  for (Json& off : Remembered()) list.push_back(std::move(off));
  Json answer = OkAnswer();
  answer["mounts"] = InOrder(std::move(list));
  reply(std::move(answer));
}

std::string StatusPage::Summary() const {
  if (off_switch_.is_off()) return "switched off; ppcctl on";
  size_t services = 0, failed = 0;
  for (const auto& [key, registration] : registrations_.all()) {
    services += registration->services().size();
    if (registration->state() == Registration::State::kFailed) ++failed;
  }
  const auto count = [](size_t number, const char* one, const char* many) {
    return std::to_string(number) + " " + (number == 1 ? one : many);
  };
  return count(registrations_.all().size(), "directory", "directories") + ", " +
         count(services, "service", "services") +
         (failed == 0 ? "" : ", " + count(failed, "policy has failed", "policies have failed"));
}

Json StatusPage::DescribeDaemon() const {
  return {{"version", kVersionText},
          {"pid", getpid()},
          {"off", off_switch_.is_off()},
          {"uptime_s", (MonotonicNs() - started_ns_) / kNsPerSec},
          {"socket", options_.socket},
          {"service_socket", options_.service_socket},
          {"state_dir", options_.state_dir},
          {"template_dir", options_.template_dir},
          {"free_floor", floor_ == nullptr ? Json() : floor_->Describe()}};
}

void StatusPage::Show(const Json& body, const Reply& reply) const {
  struct Gathered {
    Json mounts = Json::array();
    size_t missing = 1;  // one for the loop below
  };
  auto gathered = std::make_shared<Gathered>();
  const auto finish_one = [gathered, reply, daemon = DescribeDaemon()] {
    if (--gathered->missing > 0) return;
    Json answer = OkAnswer();
    answer["rights"] = "admin";
    answer["daemon"] = daemon;
    answer["mounts"] = InOrder(std::move(gathered->mounts));
    reply(std::move(answer));
  };
  for (Json& off : Remembered()) {
    if (!body.contains("mount") || off["mount"] == NormalPath(MountOf(body)))
      gathered->mounts.push_back(std::move(off));
  }
  if (off_switch_.is_off() && body.contains("mount") && !gathered->mounts.empty())
    return finish_one();
  Registration* only = nullptr;
  if (body.contains("mount")) {
    const Result<Registration*> found = registrations_.Find(MountOf(body));
    if (found) {
      only = *found;
    } else {
      const Result<MountInfo> mount = probe_.Find(MountOf(body));
      if (!mount) return reply(ErrorAnswer(found.error()));
      gathered->mounts.push_back({{"mount", mount->path},
                                  {"policy", nullptr},
                                  {"state", "native"},
                                  {"kernel", probe_.Statistics(*mount)}});
      return finish_one();
    }
  }
  for (const auto& [key, registration] : registrations_.all()) {
    if (only != nullptr && registration.get() != only) continue;
    ++gathered->missing;
    registration->Describe([gathered, finish_one](Json description) {
      gathered->mounts.push_back(std::move(description));
      finish_one();
    });
  }
  if (only == nullptr) {
    for (Json& native : Native()) gathered->mounts.push_back(std::move(native));
  }
  finish_one();
}

void StatusPage::ShowOwn(const Json& body, const Peer& peer, const Reply& reply) const {
  const auto mount = body.find("mount");
  const Result<Registration*> only = mount == body.end()
                                         ? Result<Registration*>(nullptr)
                                         : registrations_.FindFor(peer, mount->get<std::string>());
  Json mounts = Json::array();
  for (const auto& [key, registration] : registrations_.all()) {
    // A directory that is not registered looks like one that has nothing of the caller's.
    if (!only || (*only != nullptr && *only != registration.get())) continue;
    Json services = registration->services().Describe(peer);
    if (services.empty()) continue;
    mounts.push_back({{"mount", registration->mount().path},
                      {"backend", registration->Backend()},
                      {"policy", registration->choice().name},
                      {"state", registration->ShownState()},
                      {"services", std::move(services)}});
  }
  Json answer = OkAnswer();
  answer["rights"] = "service";
  answer["daemon"] = {{"version", kVersionText},
                      {"uptime_s", (MonotonicNs() - started_ns_) / kNsPerSec},
                      {"template_dir", options_.template_dir}};
  answer["mounts"] = std::move(mounts);
  reply(std::move(answer));
}

void ShowLog(const Registrations& registrations, const Json& body, const Reply& reply) {
  const auto mount = body.find("mount");
  const std::string path = mount == body.end() ? "" : NormalPath(mount->get<std::string>());
  struct Gathered {
    std::vector<Json> lines;
    size_t missing = 1;  // one for ppcd's own
  };
  const auto gathered = std::make_shared<Gathered>();
  const auto finish_one = [gathered, reply] {
    if (--gathered->missing > 0) return;
    std::ranges::stable_sort(gathered->lines, {},
                             [](const Json& line) { return JsonCount(line, "time_ns"); });
    Json answer = OkAnswer();
    answer["lines"] = gathered->lines;
    reply(std::move(answer));
  };
  for (const LogLine& line : RecentLog()) {
    if (line.about.directory != path && !IsAbout(line.text, path)) continue;
    gathered->lines.push_back(LogLineJson(line));
  }
  for (const auto& [key, registration] : registrations.all()) {
    if (!path.empty() && registration->mount().path != path) continue;
    ++gathered->missing;
    registration->AskForLog([gathered, finish_one](const Json& lines) {
      gathered->lines.insert(gathered->lines.end(), lines.begin(), lines.end());
      finish_one();
    });
  }
  finish_one();
}

}  // namespace ppc::control
