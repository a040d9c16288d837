// SPDX-License-Identifier: Apache-2.0
#include "daemon/policy/io_check.h"

#include <algorithm>
#include <cstring>
#include <string_view>

namespace ppc {
namespace {

constexpr size_t kMaxPath = 4095;
constexpr uint64_t kMaxOffset = uint64_t{1} << 62;  // beyond any file
constexpr uint64_t kPageMask = 4095;
constexpr uint32_t kAllFlags =
    PPC_IO_UNMAP | PPC_IO_EVEN_LOCKED | PPC_IO_DRAIN | PPC_IO_MANY | PPC_IO_BURN | PPC_IO_WAITED;

}  // namespace

bool IsCleanPath(const char* path) {
  if (path == nullptr) return false;
  const size_t bytes = strnlen(path, kMaxPath + 1);
  if (bytes == 0 || bytes > kMaxPath) return false;
  std::string_view rest(path, bytes);
  while (true) {
    const size_t slash = rest.find('/');
    const std::string_view part = rest.substr(0, slash);
    if (part.empty() || part == "." || part == "..") return false;
    if (slash == std::string_view::npos) return true;
    rest.remove_prefix(slash + 1);
  }
}

const char* IoRefusalName(IoRefusal refusal) {
  switch (refusal) {
    case IoRefusal::kPath:
      return "path";
    case IoRefusal::kFile:
      return "file";
    case IoRefusal::kRange:
      return "range";
    case IoRefusal::kGroup:
      return "group";
    case IoRefusal::kFlags:
      return "flags";
    case IoRefusal::kEmpty:
      return "empty";
    case IoRefusal::kNone:
      break;
  }
  return "none";
}

std::optional<IoRange> CheckIo(const ppc_io& io, FileResolver* files, IoRefusal* why) {
  const auto refuse = [why](IoRefusal reason) {
    *why = reason;
    return std::nullopt;
  };
  *why = IoRefusal::kNone;
  if (io.group >= PPC_MAX_GROUPS) return refuse(IoRefusal::kGroup);
  if ((io.flags & ~kAllFlags) != 0) return refuse(IoRefusal::kFlags);
  if (io.offset > kMaxOffset || io.size > kMaxOffset) return refuse(IoRefusal::kRange);
  IoRange range;
  uint64_t bytes = 0;
  if (io.file != 0) {
    range.file = io.file;
    if (!files->SizeOf(io.file, &bytes)) return refuse(IoRefusal::kFile);
  } else {
    if (!IsCleanPath(io.path)) return refuse(IoRefusal::kPath);
    if (!files->FindPath(io.path, &range.file, &bytes)) return refuse(IoRefusal::kFile);
  }
  range.offset = io.offset & ~kPageMask;
  const uint64_t file_end = (bytes + kPageMask) & ~kPageMask;
  const uint64_t end = std::min((io.offset + io.size + kPageMask) & ~kPageMask, file_end);
  if (io.size == 0 || end <= range.offset) return refuse(IoRefusal::kEmpty);
  range.size = end - range.offset;
  range.cookie = io.cookie;
  range.xpu = std::max(io.xpu, PPC_NO_XPU);
  range.group = io.group;
  range.flags = io.flags;
  range.service = io.service;
  return range;
}

}  // namespace ppc
