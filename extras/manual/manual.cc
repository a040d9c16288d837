// SPDX-License-Identifier: Apache-2.0
#include "extras/manual/manual.h"

#include <cerrno>

#include "daemon/cli/tree.h"

namespace ppc::cli {

Result<std::string> Dump(const Tree& tree, const std::string& kind) {
  if (kind == "man") return ManPage(tree);
  if (kind == "bash") return BashCompletion(tree);
  return Error{EINVAL, std::string(kDumpFlag) + " takes man or bash"};
}

std::string ManPage(const Program& program) { return ManPage(Tree(program)); }
std::string BashCompletion(const Program& program) { return BashCompletion(Tree(program)); }

}  // namespace ppc::cli
