// SPDX-License-Identifier: Apache-2.0
// Owns what is made of a program's table beside its --help: the man page and the shell's
// completion. Threads: pure functions, any thread.
#ifndef PPC_EXTRAS_MANUAL_MANUAL_H_
#define PPC_EXTRAS_MANUAL_MANUAL_H_

#include <string>

#include "daemon/cli/command_line.h"

namespace ppc::cli {

class Tree;

// roff for man(1).
std::string ManPage(const Tree& tree);
std::string ManPage(const Program& program);
// To be sourced by bash.
std::string BashCompletion(const Tree& tree);
std::string BashCompletion(const Program& program);

}  // namespace ppc::cli

#endif  // PPC_EXTRAS_MANUAL_MANUAL_H_
