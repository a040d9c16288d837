// SPDX-License-Identifier: Apache-2.0
// Owns reading small text files (/proc, /sys, configuration) and writing whole buffers.
#ifndef PPC_DAEMON_BASE_FILES_H_
#define PPC_DAEMON_BASE_FILES_H_

#include <cstddef>
#include <string>

#include "daemon/base/result.h"

namespace ppc {

// At most max_bytes; what is beyond is cut.
Result<std::string> ReadFile(const std::string& path, size_t max_bytes = 1 << 20);

// First line without its newline, trimmed.
Result<std::string> ReadLine(const std::string& path);

// All of it or an error; EINTR is handled.
Status WriteAll(int fd, const void* data, size_t bytes);

// Drops white space at both ends.
std::string Trim(const std::string& text);

// Joins an injected root ("" or "/" for none) and an absolute path.
std::string UnderRoot(const std::string& root, const std::string& path);

}  // namespace ppc

#endif  // PPC_DAEMON_BASE_FILES_H_
