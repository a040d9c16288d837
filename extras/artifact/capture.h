// SPDX-License-Identifier: Apache-2.0
// Owns making a bundle of what roots hold now.
// Threads: one at a time.
#ifndef PPC_EXTRAS_ARTIFACT_CAPTURE_H_
#define PPC_EXTRAS_ARTIFACT_CAPTURE_H_

#include <cstdint>
#include <stop_token>
#include <string>
#include <vector>

#include "daemon/base/result.h"
#include "extras/artifact/manifest.h"
#include "extras/artifact/objects.h"
#include "extras/artifact/store.h"
#include "extras/artifact/walk.h"

namespace ppc::artifact {

struct CaptureRequest {
  std::string service_id;
  Key key;
  std::vector<Root> roots;  // those that are not there are empty
  Compress compress = Compress::kAuto;
  uint64_t max_bytes = UINT64_MAX;  // of all files
  std::stop_token stop;
};

struct Captured {
  BundleName name;
  uint64_t files = 0;
  uint64_t bytes = 0;
  uint64_t stored_bytes = 0;  // that were not in the store
  uint64_t unread = 0;        // files that are as they were when captured before
  bool is_unchanged = false;  // the bundle that is there says the same
  LeftOut left_out;
};

// The store's bundle of this service and key, in place of the one before; that one stays on any
// error.  ENODATA: the roots hold no file; as Store::Load(): there is one that cannot be read. What
// is written to meanwhile is left out.
Result<Captured> Capture(Store& store, const CaptureRequest& request);

}  // namespace ppc::artifact

#endif  // PPC_EXTRAS_ARTIFACT_CAPTURE_H_
