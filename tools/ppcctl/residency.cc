// SPDX-License-Identifier: Apache-2.0
// ppcctl residency.
#include <algorithm>
#include <cstdio>
#include <vector>

#include "daemon/base/json.h"
#include "tools/ppcctl/file_ranges.h"
#include "tools/ppcctl/output.h"
#include "tools/ppcctl/page_map.h"
#include "tools/ppcctl/text.h"
#include "tools/ppcctl/verbs.h"

namespace ppc::ctl {
namespace {

constexpr size_t kBarCells = 40;

Json ToJson(const std::string& path, const PageMap& map) {
  Json out{{"path", path}, {"size", map.size}, {"resident", map.resident}};
  if (!map.by_device) return out;
  out["dirty"] = map.dirty;
  out["mapped"] = map.mapped;
  out["nodes"] = Json::object();
  for (const auto& [node, bytes] : map.nodes) out["nodes"][std::to_string(node)] = bytes;
  return out;
}

void PrintNodes(const std::map<int, uint64_t>& nodes) {
  for (const auto& [node, bytes] : nodes) {
    std::printf("  node %d: %s", node, HumanBytes(bytes).c_str());
  }
}

void PrintLine(const std::string& label, const PageMap& map, bool with_nodes, bool is_utf8) {
  const double share = map.size == 0
                           ? 0
                           : 100.0 * static_cast<double>(std::min(map.resident, map.size)) /
                                 static_cast<double>(map.size);
  std::printf("%5.1f%% ", share);
  if (!map.pages.empty()) std::printf("|%s| ", Bar(map.Shares(kBarCells), is_utf8).c_str());
  std::printf("%s of %s  %s", HumanBytes(map.resident).c_str(), HumanBytes(map.size).c_str(),
              label.c_str());
  if (with_nodes) PrintNodes(map.nodes);
  std::printf("\n");
}

void AddTo(PageMap& total, const PageMap& map) {
  total.size += map.size;
  total.resident += map.resident;
  total.dirty += map.dirty;
  total.mapped += map.mapped;
  total.by_device = map.by_device;
  for (const auto& [node, bytes] : map.nodes) total.nodes[node] += bytes;
}

}  // namespace

int Residency(const Args& args) {
  const std::string path = args.operands[0];
  const Result<std::vector<std::string>> files = FilesBelow(path);
  if (!files) return Failed(files.error());
  const bool wants_json = WantsJson();
  const bool is_utf8 = IsUtf8Locale();
  PageMap total;
  Json list = Json::array();
  int status = kExitOk;
  for (const std::string& file : *files) {
    const Result<PageMap> map = ReadPageMap(file, /*wants_device=*/true);
    if (!map) {
      Complain(map.error());
      status = kExitFailed;
      continue;
    }
    if (args.Has("--nodes") && !map->by_device && total.size == 0) {
      Complain("warning: " + file + ": bytes per node are known on ppc mounts only, and to root");
    }
    AddTo(total, *map);
    if (wants_json) {
      list.push_back(ToJson(file, *map));
    } else {
      PrintLine(file, *map, args.Has("--nodes"), is_utf8);
    }
  }
  if (wants_json) {
    Json out = ToJson(path, total);
    out["files"] = std::move(list);
    PrintJson(out);
  } else if (files->size() != 1) {
    PrintLine("total of " + std::to_string(files->size()) + " files", total, args.Has("--nodes"),
              is_utf8);
  }
  return status;
}

}  // namespace ppc::ctl
