// SPDX-License-Identifier: Apache-2.0
#include "policies/maio/record/template_writer.h"

#include <ctime>
#include <utility>

#include "policies/maio/base/tuning.h"
#include "policies/maio/template/shared_store.h"

namespace ppc::maio {

// The headers are in the cache, the service has just read them.
void TemplateWriter::FillFingerprints(const FingerprintOf& fingerprint_of) {
  size_t small = 0;
  for (TemplateFile& file : recorder_.files()) {
    // Of packages only names and sizes count, and there are tens of thousands.
    if (file.kind == FileKind::kSmall && ++small > kPackageFiles) continue;
    file.fingerprint = fingerprint_of(file.path, file.size, &file.kind);
  }
}

// A recording that was cut short replaces neither a whole one nor one that got further.
bool TemplateWriter::Supersedes() const {
  if ((flags_ & kPartial) == 0 || !is_first_ || found_.bytes == 0) return true;
  if ((found_.flags & kSynthetic) != 0) return true;
  return (found_.flags & (kPartial | kWarmSuspect)) != 0 && recorder_.bytes() > found_.bytes;
}

void TemplateWriter::Write(const FingerprintOf& fingerprint_of) {
  FillFingerprints(fingerprint_of);
  if (has_missed_ || !recorder_.HasBeginnings()) {
    reason_ = "recording began in the middle of a load; the next start records again";
    level_ = PPC_LOG_WARNING;
    return;
  }
  if (!Supersedes()) {
    reason_ = "the recording was cut short; the template that was there stays";
    return;
  }
  // By the clock that all nodes of a store share.
  timespec now = {};
  clock_gettime(CLOCK_REALTIME, &now);
  const uint64_t bytes = recorder_.bytes();
  Template t = std::move(recorder_).Finish(
      spec_.template_id, flags_,
      static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec));
  t.generation = found_.generation + 1;
  t.meta = meta_;
  GiveWholeNumbers(spec_, &t);
  const std::string name =
      spec_.nodes > 1 ? PartName(spec_.template_id, spec_.node) : spec_.template_id;
  std::string error;
  if (StoreAs(context_->template_dir, name, t, &error) != 0) {
    reason_ = error;
    level_ = PPC_LOG_ERROR;
    return;
  }
  stored_bytes_ = bytes;
  template_ = std::move(t);
  reason_ = "template stored";
}

}  // namespace ppc::maio
