// SPDX-License-Identifier: Apache-2.0
//
// What a service tells of itself while it follows a template.
#ifndef POLICIES_MAIO_FOLLOW_STATUS_H_
#define POLICIES_MAIO_FOLLOW_STATUS_H_

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>

#include "policies/maio/base/run.h"
#include "policies/maio/follow/affinity.h"
#include "policies/maio/follow/evictor.h"
#include "policies/maio/follow/layout.h"
#include "policies/maio/follow/matcher.h"
#include "policies/maio/follow/planner.h"
#include "policies/maio/follow/small_files.h"

namespace ppc::maio {

// As the runtime has measured it; 0: not known.
struct Device {
  uint64_t rate = 0;     // bytes a second of all loads together
  uint64_t step_ns = 0;  // one load of 2 MiB
};

// Who knows it.
struct StatusSources {
  const ServiceRun& run;
  const Layout& layout;
  const SmallFiles& small;
  const Affinity& affinity;
  const Matcher& matcher;
  const Planner& planner;
  const Evictor& evictor;
  Device device;
  const std::map<int32_t, uint64_t>& node_bytes;
  uint64_t template_bytes;
  uint64_t beacon_bytes;
  uint32_t swaps;
  bool is_constrained;
};

// Bytes of the model that are listed and that no reader has read or missed so far.
uint64_t UnreadBytes(const Layout& layout);
// Adds to the status.
void Describe(const StatusSources& followed, nlohmann::json* out);
// The same for monitoring, through the runtime.
void Stats(const StatusSources& followed);
// A line for each group, for pictures of the load.
void Trace(const StatusSources& followed, uint64_t now_ns);

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_FOLLOW_STATUS_H_
