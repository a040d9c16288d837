// SPDX-License-Identifier: Apache-2.0
// ppc-oci-manual: prints the manual page of ppc-oci-hook or ppc-oci-worker, for the build.
#include "extras/manual/manual.h"

#include <cstdio>
#include <cstring>

#include "extras/oci/programs.h"

int main(int argc, char** argv) {
  for (const ppc::cli::Program* program : {&ppc::oci::HookProgram(), &ppc::oci::WorkerProgram()}) {
    if (argc != 2 || std::strcmp(argv[1], program->name) != 0) continue;
    std::fputs(ManPage(*program).c_str(), stdout);
    return 0;
  }
  std::fprintf(stderr, "usage: ppc-oci-manual ppc-oci-hook|ppc-oci-worker\n");
  return 2;
}
