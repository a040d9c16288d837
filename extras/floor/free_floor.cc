// SPDX-License-Identifier: Apache-2.0
#include "extras/floor/free_floor.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <utility>
#include <vector>

#include "daemon/base/files.h"
#include "daemon/base/unique_fd.h"
#include "daemon/machine/host_memory.h"

namespace ppc {
namespace {

constexpr const char* kWatermarks = "/sys/vm/watermark_scale_factor";
constexpr uint64_t kScale = 10000;     // parts of a node's memory
constexpr uint64_t kMostScale = 3000;  // the kernel's maximum

Status Write(const std::string& path, const std::string& text) {
  const UniqueFd fd(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!fd.IsValid() || write(fd.Get(), text.data(), text.size()) < 0)
    return PosixError(path, errno);
  return Ok();
}

}  // namespace

FreeFloor::FreeFloor(SysRoots roots, uint64_t floor_bytes)
    : roots_(std::move(roots)), floor_bytes_(floor_bytes) {}

FreeFloor::~FreeFloor() {
  if (!watermark_before_.empty()) (void)Write(roots_.Proc(kWatermarks), watermark_before_);
}

uint64_t FreeFloor::Missing(Node* node, uint64_t free, uint64_t floor) {
  const uint64_t fell = node->free > free ? node->free - free : 0;
  node->free = free;
  // A look may come late; a large allocation need not be covered a second time.
  const uint64_t most = std::max(kLeastMargin, floor / 2);
  node->margin =
      std::clamp(std::max(kLooks * fell, node->margin - node->margin / 16), kLeastMargin, most);
  if (node->pause > 0) {
    --node->pause;
    return 0;
  }
  return free < floor + node->margin / 2 ? std::min(floor + node->margin - free, kMostAtOnce) : 0;
}

// If processes hold the memory, little can be reclaimed, and that little is needed: executables,
// and pages just loaded.
void FreeFloor::NoteFreed(Node* node, uint64_t asked, uint64_t free) {
  const bool is_in_vain = free < node->free + asked / 8;
  node->free = free;
  node->in_vain = is_in_vain ? std::min(node->in_vain + 1, kMostInVain) : 0;
  if (node->in_vain > 1) node->pause = 1 << node->in_vain;
}

Result<uint64_t> FreeFloor::Look() {
  const Result<HostMemory> all = ReadHostMemory(roots_, {});
  if (!all) return all.error();
  if (all->total == 0) return Error{EIO, "/proc/meminfo has no MemTotal"};
  uint64_t asked = 0;
  for (const int number : OnlineNodes(roots_)) {
    const Result<HostMemory> memory = ReadHostMemory(roots_, {number});
    if (!memory || memory->total == 0) continue;  // it has CPUs only
    const auto floor = static_cast<uint64_t>(
        static_cast<double>(floor_bytes_) *
        (static_cast<double>(memory->total) / static_cast<double>(all->total)));
    Node& node = nodes_[number];
    const uint64_t missing = Missing(&node, memory->free, floor);
    if (missing == 0) continue;
    if (Status status = Reclaim(number, missing); !status) return status.error();
    const Result<HostMemory> after = ReadHostMemory(roots_, {number});
    if (after && watermark_before_.empty()) NoteFreed(&node, missing, after->free);
    asked += missing;
  }
  return asked;
}

Status FreeFloor::Reclaim(int node, uint64_t bytes) {
  const std::string paths[] = {
      roots_.Sys("/devices/system/node/node" + std::to_string(node) + "/reclaim"),
      roots_.Sys("/fs/cgroup/memory.reclaim")};
  for (const std::string& path : paths) {
    Status status = Write(path, std::to_string(bytes) + " swappiness=0");
    if (!status && status.error().code == EINVAL) status = Write(path, std::to_string(bytes));
    // The kernel could not reclaim it all, or a signal came.
    if (status || status.error().code == EAGAIN || status.error().code == EINTR) return Ok();
    // In a container the file may be read-only.
    if (status.error().code != ENOENT && status.error().code != EROFS &&
        status.error().code != EACCES)
      return status;
  }
  return RaiseWatermarks();
}

Status FreeFloor::RaiseWatermarks() {
  if (!watermark_before_.empty()) return Ok();
  const std::string path = roots_.Proc(kWatermarks);
  const Result<std::string> before = ReadLine(path);
  const Result<HostMemory> all = ReadHostMemory(roots_, {});
  uint64_t now = 0;
  if (!before || !all || all->total == 0 ||
      std::from_chars(before->data(), before->data() + before->size(), now).ec != std::errc())
    return Error{ENOTSUP, "this kernel has neither nodeN/reclaim nor memory.reclaim nor " + path};
  const auto share = static_cast<double>(floor_bytes_) / static_cast<double>(all->total);
  const uint64_t wanted = std::min(kMostScale, static_cast<uint64_t>(share * kScale) + 1);
  if (wanted > now)
    if (Status status = Write(path, std::to_string(wanted)); !status) return status;
  watermark_before_ = *before;
  return Ok();
}

}  // namespace ppc
