// SPDX-License-Identifier: Apache-2.0
//
// What a service starts with: the template from the store, as far as it still
// fits the files, or one from the model's headers; and what of it an earlier run
// has left in memory.  Reads files, so it is run in the background, and shares
// nothing with the service.
#ifndef POLICIES_MAIO_SYNTH_PREPARE_H_
#define POLICIES_MAIO_SYNTH_PREPARE_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "policies/maio/base/config.h"
#include "policies/maio/base/file_lookup.h"
#include "policies/maio/follow/tables.h"
#include "policies/maio/record/recording.h"
#include "policies/maio/synth/synth.h"
#include "policies/maio/template/template.h"
#include "ppc.h"

namespace ppc::maio {

struct Preparation {
  std::optional<Tables> followed;
  bool is_recorded = false;  // the start, whatever is followed
  bool is_warm = false;      // some of what is followed is in memory already, and may not be seen
  std::string reason;
  FoundTemplate found;
  KnownKinds kinds;  // of what is followed while it is recorded
  uint64_t generation = 0;
  uint32_t stale_files = 0;
  uint32_t synthesized_files = 0;
};

class Preparer {
 public:
  // memory: of the service, now; goes_on: it takes over a load, or is loaded for in advance.
  Preparer(const ppc_context* context, const Config& config, const ServiceSpec& spec,
           const ppc_memory& memory, bool goes_on)
      : context_(context),
        config_(config),
        spec_(spec),
        memory_(memory),
        goes_on_(goes_on),
        start_ns_(context->now_ns(context)) {}

  void Prepare();
  // What was found; cookie: of the service, nonce: of this layout.
  Preparation Finish(uint64_t cookie, uint64_t nonce);

 private:
  void FollowProvisionally(Template* known);
  bool MustWait(const Template* known) const;
  void CompleteFromHeaders(Template* t);
  bool FitsWorkers(Template* t) const;
  bool Adopt(Template* t);
  int LoadKnown(Template* t, std::string* error);
  void Rename(Template* t) const;
  std::optional<ModelPlace> FindPlace(ModelSource* source) const;
  void UseKnownNames(const Template& known, Template* headers) const;
  void ReadChangedAhead(const Template& t, const std::vector<size_t>& asked,
                        const std::vector<FileLookup>& found) const;
  std::vector<uint64_t> CheckFiles(const Template& t);
  bool MayBeLeftOver(const Tables& tables) const;
  uint32_t TensorParallel() const;  // 0: not told
  std::string LoadFormat() const;   // "": not told
  SynthOptions SynthOptionsFor(uint32_t workers) const;
  std::optional<Template> SynthesizeModel();
  void SayMissing();
  void AddDraft(ModelSource* source, SynthOptions options, Template* t) const;
  bool RepairFile(Template* t, uint32_t file);
  void Log(int level, const std::string& message) const {
    context_->log(context_, level, message.c_str());
  }

  const ppc_context* const context_;
  const Config config_;
  const ServiceSpec spec_;
  const ppc_memory memory_;
  const bool goes_on_;
  const uint64_t start_ns_;
  std::optional<Template> followed_;
  std::set<std::string> missing_;      // files of the model that are listed and not there
  std::vector<uint64_t> numbers_;      // of its files in this run, 0: changed or gone
  std::vector<std::string> deferred_;  // of them, see DeferredFiles
  bool waits_ = false;                 // see Tables
  Preparation out_;
};

// Of a file of the mount; sets *kind (unless nullptr) when its contents say it.
Fingerprint FingerprintOf(const ppc_context* context, const std::string& path, uint64_t size,
                          FileKind* kind);

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_SYNTH_PREPARE_H_
