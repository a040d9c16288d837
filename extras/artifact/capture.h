// SPDX-License-Identifier: Apache-2.0
// Owns making a bundle of the current contents of roots.
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
  std::vector<Root> roots;  // missing roots count as empty
  Compress compress = Compress::kAuto;
  uint64_t max_bytes = UINT64_MAX;  // of all files
  std::stop_token stop;
};

struct Captured {
  BundleName name;
  uint64_t files = 0;
  uint64_t bytes = 0;
  uint64_t stored_bytes = 0;  // newly stored
  uint64_t unread = 0;        // unchanged files, whose last capture is used
  bool is_unchanged = false;  // the existing bundle has the same content
  LeftOut left_out;
};

// Replaces the store's bundle of this service and key; on any error the old one stays.  ENODATA:
// the roots hold no file; errors of Store::Load(): an existing bundle cannot be read.  Files that
// change meanwhile are left out.
Result<Captured> Capture(Store& store, const CaptureRequest& request);

}  // namespace ppc::artifact

#endif  // PPC_EXTRAS_ARTIFACT_CAPTURE_H_
