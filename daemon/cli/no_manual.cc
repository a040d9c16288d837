// SPDX-License-Identifier: Apache-2.0
// In place of extras/manual, where that is left out.
#include <cerrno>

#include "daemon/cli/tree.h"

namespace ppc::cli {

Result<std::string> Dump(const Tree& /*tree*/, const std::string& /*kind*/) {
  return Error{ENOTSUP, std::string(kDumpFlag) + ": this program was built without extras/manual"};
}

}  // namespace ppc::cli
