// SPDX-License-Identifier: Apache-2.0
// Owns the question which bytes a start needs and which of them memory holds already.
// Computes the start-up bound from these bytes.
// Threads: pure functions, any thread.
#ifndef PPC_EXTRAS_PLAN_NEEDED_BYTES_H_
#define PPC_EXTRAS_PLAN_NEEDED_BYTES_H_

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

// Owns the start-up bound: the least time in which a service can start on this machine, by
// any way of loading its model.
// Threads: pure functions, any thread.
struct StartCost {
  uint64_t bytes = 0;        // needed from the disk
  double disk_rate = 0;      // bytes a second, above 0
  double init_s = 0;         // before the load begins
  double hot_load_s = 0;     // the load with everything cached
  uint64_t cache_bytes = 0;  // page cache that it may use
};

struct StartBound {
  double seconds = 0;
  bool is_constrained = false;  // memory does not hold what is needed
};

// With memory enough max(init + hot load, bytes / rate).  Else what the disk gives during init, as
// far as memory holds it, is ahead, and the rest comes while it is loaded.
StartBound BoundOf(const StartCost& cost);

}  // namespace ppc::ctl

#endif  // PPC_EXTRAS_PLAN_NEEDED_BYTES_H_
