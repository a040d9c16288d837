// SPDX-License-Identifier: Apache-2.0
// ppcctl warm, drop: the page cache by hand.
#include <algorithm>
#include <cstdio>
#include <set>

#include "daemon/machine/host_memory.h"
#include "tools/ppcctl/file_ranges.h"
#include "tools/ppcctl/output.h"
#include "tools/ppcctl/page_map.h"
#include "tools/ppcctl/text.h"
#include "tools/ppcctl/verbs.h"

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

}  // namespace

int Warm(const Args& args) {
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

int Drop(const Args& args) {
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

}  // namespace ppc::ctl
