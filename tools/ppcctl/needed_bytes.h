// SPDX-License-Identifier: Apache-2.0
// Owns the question which bytes a start needs and which of them memory holds already.
// Threads: pure functions, any thread.
#ifndef PPC_TOOLS_PPCCTL_NEEDED_BYTES_H_
#define PPC_TOOLS_PPCCTL_NEEDED_BYTES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "policies/maio/template/template.h"

namespace ppc::ctl {

struct NeededBytes {
  uint64_t total = 0;
  uint64_t resident = 0;  // of them
  size_t files = 0;
  size_t unreadable = 0;  // gone, or not ours to look at: counted as absent
};

// The model's files: `model` is one, or a directory with some.
std::vector<std::string> ModelFiles(const std::string& model);
NeededBytes NeededOfModel(const std::string& model);

// What the template names, each page once; its paths are below `root`.
NeededBytes NeededOfTemplate(const maio::Template& t, const std::string& root);

}  // namespace ppc::ctl

#endif  // PPC_TOOLS_PPCCTL_NEEDED_BYTES_H_
