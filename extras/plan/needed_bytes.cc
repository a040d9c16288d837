// SPDX-License-Identifier: Apache-2.0
#include "extras/plan/needed_bytes.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "extras/cache/page_map.h"
#include "tools/ppcctl/model_find.h"

namespace ppc::ctl {

namespace fs = std::filesystem;

std::vector<std::string> ModelFiles(const std::string& model) {
  std::error_code error;
  if (!fs::is_directory(model, error)) return {model};
  std::vector<std::string> files;
  for (fs::directory_iterator entry(model, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    if (IsModelFile(entry->path())) files.push_back(entry->path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

NeededBytes NeededOfModel(const std::string& model) {
  NeededBytes needed;
  for (const std::string& file : ModelFiles(model)) {
    ++needed.files;
    std::error_code error;
    const uintmax_t size = fs::file_size(file, error);
    if (!error) needed.total += size;
    const Result<PageMap> map = ReadPageMap(file, /*wants_device=*/false);
    if (map) {
      needed.resident += std::min(map->resident, map->size);
    } else {
      ++needed.unreadable;
    }
  }
  return needed;
}

NeededBytes NeededOfTemplate(const maio::Template& t, const std::string& root) {
  NeededBytes needed;
  needed.files = t.files.size();
  const auto page_bytes = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  for (uint32_t file = 0; file < t.files.size(); ++file) {
    std::vector<bool> wanted((t.files[file].size + maio::kPage - 1) / maio::kPage);
    for (const maio::TemplateGroup& group : t.groups) {
      for (const maio::Extent& extent : group.extents) {
        if (extent.file != file) continue;
        const uint64_t end = std::min<uint64_t>(extent.page + extent.pages, wanted.size());
        for (uint64_t page = extent.page; page < end; ++page) wanted[page] = true;
      }
    }
    const Result<PageMap> map =
        ReadPageMap(root + "/" + t.files[file].path, /*wants_device=*/false);
    if (!map) ++needed.unreadable;
    for (uint64_t page = 0; page < wanted.size(); ++page) {
      if (!wanted[page]) continue;
      needed.total += maio::kPage;
      const uint64_t host_page = page * maio::kPage / page_bytes;
      const bool is_there = map && host_page < map->pages.size() && map->pages[host_page];
      needed.resident += is_there ? maio::kPage : 0;
    }
  }
  return needed;
}

StartBound BoundOf(const StartCost& cost) {
  const auto bytes = static_cast<double>(cost.bytes);
  const auto cache = static_cast<double>(cost.cache_bytes);
  if (cost.bytes <= cost.cache_bytes) {
    return {std::max(cost.init_s + cost.hot_load_s, bytes / cost.disk_rate), false};
  }
  const double ahead = std::min(cache, cost.init_s * cost.disk_rate);
  return {cost.init_s + std::max(cost.hot_load_s, (bytes - ahead) / cost.disk_rate), true};
}

}  // namespace ppc::ctl
