// SPDX-License-Identifier: Apache-2.0
// Owns the checks of what a policy's lists contain: a policy may be wrong in every
// field, and nothing it says makes the runtime leave the mount or overflow.
#ifndef PPC_DAEMON_POLICY_IO_CHECK_H_
#define PPC_DAEMON_POLICY_IO_CHECK_H_

#include <ppc.h>

#include <cstdint>
#include <optional>
#include <string>

namespace ppc {

// A checked range: file known, page aligned, inside the file, not empty.
struct IoRange {
  uint64_t file = 0;
  uint64_t offset = 0;
  uint64_t size = 0;
  uint64_t cookie = 0;
  int xpu = PPC_NO_XPU;
  uint32_t group = 0;
  uint32_t flags = 0;  // PPC_IO_*
  uint32_t service = 0;
};

// What the checks need to know about files.
class FileResolver {
 public:
  virtual ~FileResolver() = default;
  // Sets *bytes; false: no such file (any more).
  virtual bool SizeOf(uint64_t file, uint64_t* bytes) = 0;
  // Sets *file and *bytes; false: no such path.
  virtual bool FindPath(const std::string& path, uint64_t* file, uint64_t* bytes) = 0;
};

// Relative, no empty, "." or ".." components, shorter than a path may be.
bool IsCleanPath(const char* path);

enum class IoRefusal { kNone, kPath, kFile, kRange, kGroup, kFlags, kEmpty };
const char* IoRefusalName(IoRefusal refusal);

// Nothing, and *why, if the range is refused; kEmpty (beyond the file's end) is no fault.
// An XPU that this machine does not have is dropped, not refused: it only means "anywhere".
std::optional<IoRange> CheckIo(const ppc_io& io, FileResolver* files, IoRefusal* why);

}  // namespace ppc

#endif  // PPC_DAEMON_POLICY_IO_CHECK_H_
