// SPDX-License-Identifier: Apache-2.0
#include "daemon/machine/mount_table.h"

#include <sys/sysmacros.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <string_view>
#include <utility>

#include "daemon/base/files.h"

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

// Returns the text before the next `end`, or all; *text becomes the rest behind it.
std::string_view Cut(std::string_view* text, char end) {
  const size_t at = std::min(text->find(end), text->size());
  const std::string_view first = text->substr(0, at);
  text->remove_prefix(std::min(at + 1, text->size()));
  return first;
}

int ToNumber(std::string_view text) {
  int number = 0;
  (void)std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
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
    entry.id = ToNumber(Cut(&line, ' '));
    entry.parent = ToNumber(Cut(&line, ' '));
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
