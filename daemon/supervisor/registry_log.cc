// SPDX-License-Identifier: Apache-2.0
// What ppcd still knows of its log, for who has no journal.
#include <cstdint>
#include <utility>

#include "daemon/base/log.h"
#include "daemon/machine/mount_table.h"
#include "daemon/supervisor/registry.h"

namespace ppc::control {

void Registry::ShowLog(const Json& body, const Reply& reply) {
  const auto mount = body.find("mount");
  const std::string path = mount == body.end() ? "" : NormalPath(mount->get<std::string>());
  Json lines = Json::array();
  for (const LogLine& line : RecentLog()) {
    if (line.about.directory != path && !IsAbout(line.text, path)) continue;
    lines.push_back({{"number", line.number},
                     {"time_ns", line.time_ns},
                     {"priority", static_cast<int>(line.level)},
                     {"text", line.text}});
    if (!line.about.directory.empty()) lines.back()["directory"] = line.about.directory;
    if (!line.about.service.empty()) lines.back()["service"] = line.about.service;
  }
  Json answer = OkAnswer();
  answer["lines"] = std::move(lines);
  reply(std::move(answer));
}

// Messages name their directory; "/m" is not "/models", but "/m/below" is another's, too.
bool Registry::IsAbout(const std::string& text, const std::string& path) {
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

}  // namespace ppc::control
