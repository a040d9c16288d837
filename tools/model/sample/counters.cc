// SPDX-License-Identifier: Apache-2.0
// What the kernel counts of a disk, a control group and the NUMA nodes.
// Threads: free functions without state.
#include "tools/model/sample/counters.h"

#include <charconv>
#include <cstdlib>

#include "daemon/base/files.h"

namespace ppc::bench {
namespace {

uint64_t ToNumber(std::string_view text) {
  const size_t start = text.find_first_not_of(" \t");
  if (start == std::string_view::npos) return 0;
  uint64_t value = 0;
  std::from_chars(text.data() + start, text.data() + text.size(), value);
  return value;
}

std::string Member(const char* name, uint64_t value, bool is_first = false) {
  return (is_first ? "\"" : ",\"") + std::string(name) + "\":" + std::to_string(value);
}

}  // namespace

std::optional<DiskCounters> ParseDiskStat(std::string_view text) {
  std::vector<uint64_t> fields;
  const char* at = text.data();
  const char* end = at + text.size();
  while (at < end && fields.size() < 3) {
    while (at < end && *at == ' ') ++at;
    uint64_t value = 0;
    const auto [next, error] = std::from_chars(at, end, value);
    if (error != std::errc()) return std::nullopt;
    fields.push_back(value);
    at = next;
  }
  if (fields.size() < 3) return std::nullopt;
  return DiskCounters{fields[0], fields[2] * 512};
}

uint64_t FlatValue(std::string_view text, std::string_view key) {
  for (size_t at = 0; (at = text.find(key, at)) != std::string_view::npos; at += key.size()) {
    const size_t after = at + key.size();
    const bool is_line_start = at == 0 || text[at - 1] == '\n';
    if (is_line_start && after < text.size() && text[after] == ' ')
      return ToNumber(text.substr(after));
  }
  return 0;
}

uint64_t NodeFileBytes(std::string_view meminfo) {
  const size_t at = meminfo.find("FilePages:");
  return at == std::string_view::npos ? 0 : 1024 * ToNumber(meminfo.substr(at + 10));
}

namespace {

// The same members from the memory controller's own hierarchy (v1), whose counters have other
// names; what it does not count is 0.  With the groups below it, as v2 counts.
std::string CgroupV1Json(const std::string& dir) {
  const auto current = ReadLine(dir + "/memory.usage_in_bytes");
  const auto stat = ReadFile(dir + "/memory.stat");
  const auto control = ReadFile(dir + "/memory.oom_control");
  if (!current.ok() || !stat.ok() || !control.ok()) return "";
  const auto kernel = ReadLine(dir + "/memory.kmem.usage_in_bytes");
  const auto hits = ReadLine(dir + "/memory.failcnt");
  std::string out = "\"cg\":{" + Member("current", ToNumber(*current), true);
  out += Member("file", FlatValue(*stat, "total_cache")) +
         Member("anon", FlatValue(*stat, "total_rss"));
  out += Member("kernel", kernel.ok() ? ToNumber(*kernel) : 0);
  out += Member("file_mapped", FlatValue(*stat, "total_mapped_file"));
  out += Member("active_file", FlatValue(*stat, "total_active_file"));
  for (const char* key : {"pgscan", "pgsteal", "workingset_refault_file", "high"})
    out += Member(key, 0);
  out += Member("max", hits.ok() ? ToNumber(*hits) : 0);
  return out + Member("oom_kill", FlatValue(*control, "oom_kill")) + "}";
}

}  // namespace

std::string CgroupJson(const std::string& dir) {
  const auto current = ReadLine(dir + "/memory.current");
  if (!current.ok()) return CgroupV1Json(dir);
  const auto stat = ReadFile(dir + "/memory.stat");
  const auto events = ReadFile(dir + "/memory.events");
  if (!stat.ok() || !events.ok()) return "";
  std::string out = "\"cg\":{" + Member("current", ToNumber(*current), true);
  for (const char* key : {"file", "anon", "kernel", "file_mapped", "active_file", "pgscan",
                          "pgsteal", "workingset_refault_file"})
    out += Member(key, FlatValue(*stat, key));
  for (const char* key : {"high", "max", "oom_kill"}) out += Member(key, FlatValue(*events, key));
  return out + "}";
}

std::string NodesJson(const std::string& sysroot) {
  std::string out;
  for (int node = 0;; ++node) {
    const auto text =
        ReadFile(sysroot + "/sys/devices/system/node/node" + std::to_string(node) + "/meminfo");
    if (!text.ok()) break;
    out += (node == 0 ? "" : ",") + std::to_string(NodeFileBytes(*text));
  }
  return "\"node_file\":[" + out + "]";
}

std::string DiskJson(const std::string& sysroot, const std::string& disk) {
  const auto text = ReadFile(sysroot + "/sys/class/block/" + disk + "/stat");
  const auto counters = text.ok() ? ParseDiskStat(*text) : std::nullopt;
  if (!counters) return "";
  return "\"reads\":" + std::to_string(counters->reads) +
         ",\"read_bytes\":" + std::to_string(counters->read_bytes);
}

}  // namespace ppc::bench
