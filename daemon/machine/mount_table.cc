// SPDX-License-Identifier: Apache-2.0
#include "daemon/machine/mount_table.h"

#include <sys/sysmacros.h>

#include <filesystem>
#include <string_view>
#include <utility>

#include "daemon/base/files.h"
#include "daemon/base/text.h"

namespace ppc {
namespace {

bool IsOctal(char c) { return c >= '0' && c <= '7'; }

// Blanks, newlines and backslashes are encoded as \ooo.
std::string Unescape(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool is_escape = text[i] == '\\' && i + 3 < text.size() && IsOctal(text[i + 1]) &&
                           IsOctal(text[i + 2]) && IsOctal(text[i + 3]);
    if (!is_escape) {
      out += text[i];
      continue;
    }
    out +=
        static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
    i += 3;
  }
  return out;
}

}  // namespace

std::vector<MountEntry> ReadMountTable(const SysRoots& roots) {
  constexpr size_t kMaxTableBytes = 16 << 20;
  std::vector<MountEntry> table;
  const Result<std::string> text = ReadFile(roots.Proc("/self/mountinfo"), kMaxTableBytes);
  if (!text) return table;
  std::string_view lines = *text;
  while (!lines.empty()) {
    // ID PARENT MAJOR:MINOR ROOT POINT OPTIONS [TAG...] - TYPE SOURCE SUPER_OPTIONS
    std::string_view line = Cut(&lines, '\n');
    MountEntry entry;
    entry.id = LeadingNumber<int>(Cut(&line, ' '));
    entry.parent = LeadingNumber<int>(Cut(&line, ' '));
    entry.dev = Cut(&line, ' ');
    (void)Cut(&line, ' ');
    entry.point = Unescape(Cut(&line, ' '));
    while (!line.empty() && Cut(&line, ' ') != "-") {
    }
    entry.type = Cut(&line, ' ');
    if (line.empty()) continue;
    entry.source = Unescape(Cut(&line, ' '));
    table.push_back(std::move(entry));
  }
  return table;
}

const MountEntry* FindMount(const std::vector<MountEntry>& table, const std::string& path) {
  const MountEntry* best = nullptr;
  for (const MountEntry& entry : table) {
    if (!IsBelow(path, entry.point)) continue;
    if (best != nullptr) {
      if (entry.point.size() < best->point.size()) continue;
      if (entry.point == best->point && best->parent == entry.id) continue;
    }
    best = &entry;
  }
  return best;
}

std::string MountType(const SysRoots& roots, dev_t device) {
  const std::string dev = std::to_string(major(device)) + ":" + std::to_string(minor(device));
  for (const MountEntry& entry : ReadMountTable(roots))
    if (entry.dev == dev) return entry.type;
  return "";
}

std::string NormalPath(const std::string& path) {
  std::string normal = std::filesystem::path(path).lexically_normal().string();
  while (normal.size() > 1 && normal.back() == '/') normal.pop_back();
  return normal;
}

}  // namespace ppc
