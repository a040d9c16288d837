// SPDX-License-Identifier: Apache-2.0
//
// What makes a template valid, and sums over it.  Pure functions.
#include "policies/maio/template/template.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <unordered_set>

#include "policies/maio/template/edges.h"

namespace ppc::maio {
namespace {

bool EndsWith(const std::string& s, const std::string& suffix) {
  return s.size() >= suffix.size() &&
         s.compare(s.size() - suffix.size(), suffix.size(), suffix) == 0;
}

std::string CheckGroup(const Template& t, const TemplateGroup& group) {
  std::string name = "group " + std::to_string(group.id);
  if (group.id >= kMaxWorkers && group.id != kCommonGroup) return name + ": number too large";
  if (group.extents.size() > kMaxExtents) return name + ": too many extents";
  std::string problem;
  group.extents.ForEachSeries([&](const Extent& e, uint64_t stride, uint64_t count) {
    if (!problem.empty()) return;
    if (e.file >= t.files.size()) {
      problem = name + ": extent of an unknown file";
      return;
    }
    uint64_t file_pages = (t.files[e.file].size + kPage - 1) / kPage;
    uint64_t last = 0;
    const bool is_far = __builtin_mul_overflow(stride, count - 1, &last) ||
                        __builtin_add_overflow(last, e.page, &last);
    if (e.pages == 0 || e.pages > file_pages || is_far || last > file_pages - e.pages)
      problem = name + ": extent outside of " + t.files[e.file].path;
  });
  return problem;
}

}  // namespace

uint64_t SequenceBytes(const TemplateGroup& group) {
  uint64_t pages = 0;
  group.extents.ForEachSeries(
      [&](const Extent& e, uint64_t, uint64_t count) { pages += e.pages * count; });
  return pages * kPage;
}

uint64_t DistinctBytes(const Template& t) {
  // In order and a window at a time: all ranges of the largest model at once would be 20 MiB.
  EdgeReader edges(t, [](uint32_t) { return true; });
  uint64_t pages = 0;
  uint64_t depth = 0;
  uint64_t first = 0;  // of what is in some extent
  for (Edge edge; edges.Next(&edge);) {
    if (depth == 0) first = edge.page;
    depth += edge.is_end ? -uint64_t{edge.times} : edge.times;
    if (depth == 0) pages += edge.page - first;
  }
  return pages * kPage;
}

bool ValidPath(const std::string& path) {
  if (path.empty() || path.size() > 4095 || path.find('\0') != std::string::npos) return false;
  size_t start = 0;
  while (start <= path.size()) {
    size_t end = std::min(path.find('/', start), path.size());
    std::string_view part(path.data() + start, end - start);
    if (part.empty() || part == "." || part == "..") return false;
    start = end + 1;
  }
  return true;
}

bool IsLibrary(const std::string& path) {
  const size_t name = path.rfind('/') + 1;  // npos + 1: all of it
  return EndsWith(path, ".so") || path.find(".so.", name) != std::string::npos;
}

FileKind KindOfPath(const std::string& path, uint64_t size) {
  for (const Format& format : kFormats) {
    if (path.ends_with(format.suffix)) return format.kind;
  }
  // However large: its pages are used as long as it is mapped.
  if (IsLibrary(path)) return FileKind::kSmall;
  if (size > kMaxTextBytes) return FileKind::kOther;
  for (const char* suffix :
       {".json", ".txt", ".model", ".tiktoken", ".jinja", ".py", ".pyc", ".md"}) {
    if (EndsWith(path, suffix)) return FileKind::kSmall;
  }
  return FileKind::kOther;
}

const char* PhaseName(Phase phase) {
  constexpr const char* kNames[kPhases] = {"init", "weights", "compile", "graphs", "ready"};
  return kNames[static_cast<size_t>(phase)];
}

std::optional<Phase> ParsePhase(const std::string& name) {
  for (size_t i = 0; i < kPhases; i++) {
    if (name == PhaseName(static_cast<Phase>(i))) return static_cast<Phase>(i);
  }
  return std::nullopt;
}

std::string Check(const Template& t) {
  if (!ValidServiceId(t.service_id)) return "invalid service ID";
  if (t.files.size() > kMaxFiles) return "too many files";
  if (t.groups.size() > kMaxTemplateGroups) return "too many groups";
  if (t.meta.size() > kMaxMetaBytes) return "metadata of more than 1 MiB";
  std::unordered_set<std::string_view> paths;
  size_t path_bytes = 0;
  for (const TemplateFile& file : t.files) {
    if (!ValidPath(file.path)) return "invalid path in the file table";
    if (!paths.insert(file.path).second) return file.path + ": listed twice";
    path_bytes += file.path.size();
    if (path_bytes > kMaxPathBytes) return "the paths of the files are too long together";
    if (file.size > kMaxFileBytes) return file.path + ": size too large";
  }
  uint32_t phases = 0;
  for (const PhaseMark& mark : t.phases) {
    const uint32_t bit = 1u << static_cast<uint32_t>(mark.phase);
    if ((phases & bit) != 0) return std::string("phase ") + PhaseName(mark.phase) + " listed twice";
    phases |= bit;
    if (mark.positions.size() > kMaxTemplateGroups) return "a phase of too many groups";
  }
  std::set<uint32_t> ids;
  size_t marks = 0;
  for (const TemplateGroup& group : t.groups) {
    if (!ids.insert(group.id).second) return "group listed twice";
    marks += group.time_ms.size();
    if (marks > kMaxTimeMarks) return "too many time marks";
    std::string problem = CheckGroup(t, group);
    if (!problem.empty()) return problem;
  }
  return "";
}

uint64_t OwnBytes(const Template& t) {
  const auto meta = nlohmann::json::parse(t.meta, nullptr, false);
  const auto own = meta.is_object() ? meta.find("own_bytes") : meta.end();
  return own != meta.end() && own->is_number_unsigned() ? own->get<uint64_t>() : 0;
}

}  // namespace ppc::maio
