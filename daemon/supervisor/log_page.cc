// SPDX-License-Identifier: Apache-2.0
#include "daemon/supervisor/log_page.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "daemon/base/log.h"
#include "daemon/machine/mount_table.h"

namespace ppc::control {
namespace {

uint64_t TimeOf(const Json& line) {
  const Json time_ns = JsonMember(line, "time_ns");
  return time_ns.is_number_unsigned() ? time_ns.get<uint64_t>() : 0;
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
    std::ranges::stable_sort(gathered->lines, {}, [](const Json& line) { return TimeOf(line); });
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
