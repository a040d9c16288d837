// SPDX-License-Identifier: Apache-2.0
// ppcctl residency, warm, drop: the page cache by hand.
#include <langinfo.h>

#include <algorithm>
#include <array>
#include <clocale>
#include <cstdio>
#include <set>
#include <string_view>
#include <vector>

#include "daemon/base/json.h"
#include "daemon/machine/host_memory.h"
#include "extras/cache/file_ranges.h"
#include "extras/cache/page_map.h"
#include "extras/templates/template_store.h"
#include "tools/ppcctl/extra.h"
#include "tools/ppcctl/output.h"
#include "tools/ppcctl/program_options.h"
#include "tools/ppcctl/text.h"

namespace ppc::ctl {
namespace {

// --limit; else half of what the machine can give without pushing anything out.
Result<uint64_t> ReadLimit(const Args& args) {
  if (args.Has("--limit")) {
    Result<uint64_t> limit = ParseSize(args.Get("--limit"));
    if (!limit) return Error{EINVAL, "--limit: " + limit.error().message};
    return limit;
  }
  const Result<HostMemory> host = ReadHostMemory(RootsFromEnvironment(), {});
  if (!host) return host.error();
  return host->available / 2;
}

std::set<std::string> PathsOf(const std::vector<FileRange>& ranges) {
  std::set<std::string> paths;
  for (const FileRange& range : ranges) paths.insert(range.path);
  return paths;
}

uint64_t ResidentOf(const std::set<std::string>& paths) {
  uint64_t resident = 0;
  for (const std::string& path : paths) {
    const Result<PageMap> map = ReadPageMap(path, /*wants_device=*/false);
    if (map) resident += map->resident;
  }
  return resident;
}

int ExitOfRanges(const Error& error) {
  return error.code == EINVAL ? WrongUsage(error.message) : Failed(error);
}

constexpr size_t kBarCells = 40;

bool IsUtf8Locale() {
  std::setlocale(LC_CTYPE, "");
  return std::string_view(nl_langinfo(CODESET)) == "UTF-8";
}

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

static int Warm(const Args& args) {
  const Result<uint64_t> limit = ReadLimit(args);
  if (!limit) return ExitOfRanges(limit.error());
  const Result<std::vector<FileRange>> ranges = RangesOf(args);
  if (!ranges) return ExitOfRanges(ranges.error());
  uint64_t read = 0;
  bool is_cut = false;
  int status = kExitOk;
  for (const FileRange& range : *ranges) {
    is_cut = read + BytesOf(range) > *limit;
    if (read >= *limit) break;
    const Result<uint64_t> got = WarmRange(range, *limit - read);
    if (!got) {
      status = Failed(got.error());
      continue;
    }
    read += *got;
    if (is_cut) break;
  }
  const std::set<std::string> paths = PathsOf(*ranges);
  const uint64_t resident = ResidentOf(paths);
  if (is_cut) {
    status = Failed(Error{
        ENOSPC, "stopped at the limit of " + HumanBytes(*limit) + "; --limit SIZE sets another"});
  }
  if (WantsJson()) {
    PrintJson({{"read", read},
               {"resident", resident},
               {"files", paths.size()},
               {"limit", *limit},
               {"is_cut", is_cut}});
  } else {
    std::printf("%s read, %s of %zu files in the page cache\n", HumanBytes(read).c_str(),
                HumanBytes(resident).c_str(), paths.size());
  }
  return status;
}

static int Drop(const Args& args) {
  const Result<std::vector<FileRange>> ranges = RangesOf(args);
  if (!ranges) return ExitOfRanges(ranges.error());
  const std::set<std::string> paths = PathsOf(*ranges);
  const uint64_t before = ResidentOf(paths);
  int status = kExitOk;
  for (const FileRange& range : *ranges) {
    if (const Status dropped = DropRange(range); !dropped) status = Failed(dropped.error());
  }
  const uint64_t after = ResidentOf(paths);
  const uint64_t gone = before - std::min(before, after);
  if (WantsJson()) {
    PrintJson({{"dropped", gone}, {"stayed", after}, {"files", paths.size()}});
  } else {
    std::printf("%s dropped, %s of %zu files stayed\n", HumanBytes(gone).c_str(),
                HumanBytes(after).c_str(), paths.size());
  }
  return status;
}

static int Residency(const Args& args) {
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

namespace {

constexpr std::array kWarmOptions = {
    kId, kParam, kParams,
    Option{"--limit", "SIZE", "read at most so much; default: half of the available memory"},
    kStore};
constexpr std::array kDropOptions = {kId, kParam, kParams, kStore};
constexpr std::array kResidencyOptions = {
    Option{"--nodes", nullptr, "bytes per NUMA node (ppc mounts, needs root)", 'n'}};

const std::array kCacheVerbs = {
    cli::Verb{"residency", "Page cache", "PATH",
              "Show how much of a file or directory is in the page cache.", kResidencyOptions,
              Residency},
    cli::Verb{"warm", "Page cache", "[PATH]",
              "Read files into the page cache now.\n"
              "PATH is a file or directory; with --id or --param it is the mount, and what the\n"
              "service's template names is read.  Exit status 1 if the limit ended it.",
              kWarmOptions, Warm},
    cli::Verb{"drop", "Page cache", "[PATH]",
              "Drop files from the page cache.\n"
              "What is mapped or dirty stays.  PATH as for warm.",
              kDropOptions, Drop},
};

}  // namespace

Extra CacheExtra() { return {.verbs = kCacheVerbs}; }

}  // namespace ppc::ctl
