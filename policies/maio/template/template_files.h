// SPDX-License-Identifier: Apache-2.0
//
// Files of templates: written under a temporary name first, read whole.  0 or errno.
#ifndef POLICIES_MAIO_TEMPLATE_TEMPLATE_FILES_H_
#define POLICIES_MAIO_TEMPLATE_TEMPLATE_FILES_H_

#include <unistd.h>

#include <cstdint>
#include <string>
#include <vector>

#include "policies/maio/template/template.h"

namespace ppc::maio {

// Closes a file that is open.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

// At most so many bytes of a file, which must be a regular one and no larger than a template may
// be; *error is set where strerror() would not tell.
int ReadTemplateFile(const std::string& path, std::vector<uint8_t>* bytes, std::string* error,
                     size_t most = kMaxTemplateBytes);
// A name beside `path` that nobody else uses.
int ReserveTemporary(const std::string& path, std::string* name);
// A new file of such a name, synced.  Removed again when that fails.
int WriteTemporary(const std::string& path, const std::vector<uint8_t>& bytes, std::string* name);
// What writers left behind a day ago that died.
void SweepTemporaries(const std::string& dir);
int EnsureDirectory(const std::string& path);
int SyncDirectory(const std::string& path);
// Names, in any order.
int ListDirectory(const std::string& path, std::vector<std::string>* names);

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_TEMPLATE_TEMPLATE_FILES_H_
