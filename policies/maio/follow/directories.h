// SPDX-License-Identifier: Apache-2.0
//
// A template's files, found by their names; and directories of small files, read ahead: programs
// list what lies beside the files that they read (packages of packages, caches of compiled
// modules), and no file's pages bring that into memory. Threads: the background's, and helpers of
// its own while it runs.
#ifndef POLICIES_MAIO_FOLLOW_DIRECTORIES_H_
#define POLICIES_MAIO_FOLLOW_DIRECTORIES_H_

#include <span>
#include <string>
#include <vector>

#include "policies/maio/base/file_lookup.h"
#include "policies/maio/template/template.h"
#include "ppc.h"

namespace ppc::maio {

// Of a template's small files, in its order; none where they are few.
std::vector<std::string> SmallDirectories(const Template& t);

// Of these files, in their order.  Thousands of them on a cold disk take a while, so several are
// asked for at once, and of many their directories first.  What is not answered in time is asked
// for again, for a while.
std::vector<FileLookup> LookUp(const ppc_context* context, std::span<const std::string> paths);

// Lists these, and the directories in them that are none of them.
void ReadDirectories(const ppc_context* context, const std::vector<std::string>& directories);

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_FOLLOW_DIRECTORIES_H_
