// SPDX-License-Identifier: Apache-2.0
#include "extras/cache/page_map.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "daemon/backend/file_cache.h"
#include "daemon/backend/kmod/kmod_backend.h"
#include "daemon/base/unique_fd.h"
#include "daemon/machine/roots.h"
#include "tools/ppcctl/text.h"

namespace ppc::ctl {
namespace {

uint64_t PagesOf(uint64_t bytes) { return (bytes + kPageBytes - 1) / kPageBytes; }

Result<std::string> ResolvedPath(const std::string& path) {
  const std::unique_ptr<char, FreeText> real(realpath(path.c_str(), nullptr));
  if (!real) return PosixError(path, errno);
  return std::string(real.get());
}

// `path` relative to the root of its mount: the part below the highest
// directory with the same device number.
std::string BelowMount(const std::string& path, dev_t device) {
  size_t root_end = path.size();
  for (size_t end = path.rfind('/'); end != std::string::npos;
       end = end == 0 ? std::string::npos : path.rfind('/', end - 1)) {
    const std::string dir = end == 0 ? "/" : path.substr(0, end);
    struct stat info {};
    if (stat(dir.c_str(), &info) != 0 || info.st_dev != device) break;
    root_end = end;
  }
  return root_end < path.size() ? path.substr(root_end + 1) : path;
}

std::vector<bool> PagesIn(const std::vector<uint8_t>& bits, uint64_t count) {
  std::vector<bool> pages(count);
  for (uint64_t i = 0; i < count; ++i) pages[i] = (bits[i / 8] >> (i % 8) & 1) != 0;
  return pages;
}

// `name` below the root of the mount.
Result<PageMap> ByModule(Backend* module, const std::string& name) {
  const Result<FileInfo> file = module->Lookup(name);
  if (!file) return file.error();
  PageMap map;
  map.size = file->size;
  map.by_device = true;
  const uint64_t pages = PagesOf(file->size);
  if (pages == 0) return map;
  std::vector<uint8_t> bits((pages + 7) / 8);
  const Result<ppc::Residency> found = module->Resident(file->file, 0, pages * kPageBytes, bits);
  if (!found) return Error{found.error().code, name + ": " + found.error().message};
  map.resident = found->resident;
  map.dirty = found->dirty;
  map.mapped = found->mapped;
  for (int node = 0; node < kMaxNodes; ++node) {
    if (found->node[node] != 0) map.nodes[node] = found->node[node];
  }
  map.pages = PagesIn(bits, pages);
  return map;
}

Result<PageMap> ByMincore(const std::string& path, uint64_t size) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.IsValid()) return PosixError(path, errno);
  PageMap map;
  map.size = size;
  std::vector<uint8_t> bits((PagesOf(size) + 7) / 8);
  const Result<uint64_t> cached = CachedPages(fd.Get(), 0, size, bits.data(), bits.size());
  if (!cached) return Error{cached.error().code, path + ": " + cached.error().message};
  map.resident = *cached;
  map.pages = PagesIn(bits, PagesOf(size));
  return map;
}

}  // namespace

std::vector<double> PageMap::Shares(size_t cells) const {
  std::vector<double> shares(cells, 0.0);
  for (size_t cell = 0; cell < cells && !pages.empty(); ++cell) {
    // Files of fewer pages than cells repeat pages rather than leave gaps.
    const size_t begin = cell * pages.size() / cells;
    const size_t end = std::max(begin + 1, (cell + 1) * pages.size() / cells);
    const auto from = pages.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto to = pages.begin() + static_cast<std::ptrdiff_t>(end);
    shares[cell] =
        static_cast<double>(std::count(from, to, true)) / static_cast<double>(end - begin);
  }
  return shares;
}

Result<PageMap> ReadPageMap(const std::string& path, bool wants_device) {
  const Result<std::string> real = ResolvedPath(path);
  if (!real) return real.error();
  struct stat info {};
  if (stat(real->c_str(), &info) != 0) return PosixError(path, errno);
  if (!S_ISREG(info.st_mode)) return Error{EINVAL, path + " is not a regular file"};
  if (wants_device) {
    const Result<UpcMount> mount = FindUpcMount(*real, RootsFromEnvironment().sys);
    const Result<std::unique_ptr<KmodBackend>> module =
        mount ? KmodBackend::Open(*real, *mount)
              : Result<std::unique_ptr<KmodBackend>>(mount.error());
    if (module) return ByModule(module->get(), BelowMount(*real, info.st_dev));
    // Elsewhere, and without the right to open the device, mincore still tells the total.
    const int code = module.error().code;
    if (code != ENODEV && code != EACCES && code != EPERM) return module.error();
  }
  return ByMincore(*real, static_cast<uint64_t>(info.st_size));
}

std::string Bar(const std::vector<double>& shares, bool is_utf8) {
  constexpr std::array<std::string_view, 5> kBlocks = {" ", "\u2591", "\u2592", "\u2593", "\u2588"};
  constexpr std::array<std::string_view, 5> kAscii = {" ", ".", ":", "+", "#"};
  std::string bar;
  for (const double share : shares) {
    // Only nothing at all is empty, only everything is full.
    size_t level = share <= 0 ? 0 : share >= 1 ? 4 : 1 + static_cast<size_t>(share * 3);
    level = std::min<size_t>(level, share >= 1 ? 4 : 3);
    bar += is_utf8 ? kBlocks[level] : kAscii[level];
  }
  return bar;
}

}  // namespace ppc::ctl
