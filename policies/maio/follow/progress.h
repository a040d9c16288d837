// SPDX-License-Identifier: Apache-2.0
//
// How far a service is, as one that takes it over needs to know: where its
// readers are, what they have read, what of that was released.  A value; as
// bytes it is a note for a checkpoint.  Bytes are not trusted: what does not
// fit the layout is refused as a whole.
#ifndef POLICIES_MAIO_FOLLOW_PROGRESS_H_
#define POLICIES_MAIO_FOLLOW_PROGRESS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "policies/maio/follow/layout.h"

namespace ppc::maio {

// Uses of a group's list of a file, one after the other.
struct UseRun {
  uint32_t file = 0;
  uint32_t index = 0;
  uint32_t count = 0;
};

struct StreamProgress {
  uint32_t file = 0;
  uint32_t front = 0;
  uint32_t pass = 0;
  uint32_t open_id = 0;
  uint64_t front_page = 0;
  uint64_t pos = 0;
  bool is_user = false;
  bool is_active = false;
};

struct PassedProgress {
  UseRun run;
  uint64_t stamp = 0;
};

struct GroupProgress {
  uint64_t pos = 0;
  uint64_t consumed = 0;
  uint64_t last_ns = 0;
  uint64_t released = 0;  // position up to which its uses were burnt
  double rate = 0;        // bytes per ns
  bool is_dropped = false;
  std::vector<StreamProgress> streams;
  std::vector<PassedProgress> passed;  // in the order of reading
  std::vector<UseRun> burnt;
};

struct Progress {
  uint64_t distance = 0;
  bool is_constrained = false;
  std::vector<GroupProgress> groups;  // as the layout's
};

std::vector<uint8_t> EncodeProgress(const Layout& layout, const Progress& progress);
// std::nullopt: not of this layout, or nonsense.
std::optional<Progress> DecodeProgress(const Layout& layout, std::span<const uint8_t> bytes);

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_FOLLOW_PROGRESS_H_
