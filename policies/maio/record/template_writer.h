// SPDX-License-Identifier: Apache-2.0
//
// What has been recorded, finished and stored in the background: that reads all
// files' headers and waits for the store.
#ifndef POLICIES_MAIO_RECORD_TEMPLATE_WRITER_H_
#define POLICIES_MAIO_RECORD_TEMPLATE_WRITER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "policies/maio/base/config.h"
#include "policies/maio/record/recorder.h"
#include "policies/maio/template/template.h"
#include "ppc.h"

namespace ppc::maio {

// What lay in the store before.
struct FoundTemplate {
  uint32_t flags = 0;
  uint64_t bytes = 0;  // 0: nothing
  uint64_t generation = 0;
  uint64_t created_ns = 0;
};

// A recording on its way to the store; shares nothing with the service.
class TemplateWriter {
 public:
  // Of a file of the mount; sets *kind when its contents say it.
  using FingerprintOf =
      std::function<Fingerprint(const std::string& path, uint64_t size, FileKind* kind)>;

  // Reads headers and writes the template.
  void Write(const FingerprintOf& fingerprint_of);

  // What became of it, for people; and what was stored, 0: nothing.
  const std::string& reason() const { return reason_; }
  int level() const { return level_; }
  uint64_t stored_bytes() const { return stored_bytes_; }
  // What was stored, for the store that nodes share; once.
  Template TakeTemplate() { return std::move(template_); }

 private:
  friend class Recording;
  explicit TemplateWriter(Recorder recorder) : recorder_(std::move(recorder)) {}
  void FillFingerprints(const FingerprintOf& fingerprint_of);
  bool Supersedes() const;

  Recorder recorder_;
  const ppc_context* context_ = nullptr;
  ServiceSpec spec_;
  std::string meta_;
  uint32_t flags_ = 0;
  Template template_;
  FoundTemplate found_;
  bool is_first_ = false;    // nothing of this start has been stored
  bool has_missed_ = false;  // its beginning was not seen
  std::string reason_;
  int level_ = PPC_LOG_INFO;
  uint64_t stored_bytes_ = 0;
};

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_RECORD_TEMPLATE_WRITER_H_
