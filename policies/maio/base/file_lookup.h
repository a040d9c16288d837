// SPDX-License-Identifier: Apache-2.0
#ifndef POLICIES_MAIO_BASE_FILE_LOOKUP_H_
#define POLICIES_MAIO_BASE_FILE_LOOKUP_H_

#include "ppc.h"

namespace ppc::maio {

// What is known of a file by its path.
struct FileLookup {
  ppc_file_info info = {};  // file 0: there is none
  bool is_gone = false;     // else the file system has not answered
};

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_BASE_FILE_LOOKUP_H_
