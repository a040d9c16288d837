// SPDX-License-Identifier: Apache-2.0
//
// What a start that followed a template showed of it, and what follows for the template in the
// local directory.  Judge is pure.  The others wait for storage, so they run in the background.
#ifndef POLICIES_MAIO_TEMPLATE_TEMPLATE_FEEDBACK_H_
#define POLICIES_MAIO_TEMPLATE_TEMPLATE_FEEDBACK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "policies/maio/base/config.h"
#include "ppc.h"

namespace ppc::maio {

// Of one start.
struct TemplateUse {
  uint64_t matched_events = 0;
  uint64_t unknown_events = 0;  // on pages that no worker lists
  uint64_t foreign_events = 0;  // on pages that only other workers list
  uint64_t listed_bytes = 0;    // the model's and the small files'
  uint64_t gone_bytes = 0;      // of small files that are not there any more
  uint64_t unlisted_bytes = 0;  // sizes of files that were read and are not listed
  uint64_t model_bytes = 0;
  uint64_t unread_bytes = 0;   // of model_bytes; 0 where that cannot be told
  uint64_t dropped_bytes = 0;  // by the policy
  uint64_t refault_bytes = 0;  // read again after that
};

enum class Verdict {
  kGood,
  kRepair,  // the template lists what is not read, or lacks whole files: these can be exchanged
  kRecord,  // who reads what, and when, is wrong: only another recording tells
};

struct Judgement {
  Verdict verdict = Verdict::kGood;
  std::string why;  // for people
};

Judgement Judge(const TemplateUse& use);

// Pages of a file.
struct UnreadRange {
  std::string path;
  uint64_t first_page = 0;
  uint64_t end_page = 0;
};

struct Repair {
  std::vector<UnreadRange> unread;
  std::vector<std::string> unlisted;  // paths of files that were read
};

// These log what has become of the template, and return that: a reason for people, "" for nothing.

// Nobody follows it any more, and the next start records.
std::string InvalidateTemplate(const ppc_context* context, const ServiceSpec& spec,
                               const std::string& why);
// Takes out what was not read, and lists the model-sized files that were.  What it adds is a guess:
// the next start follows it and is recorded.
std::string RepairTemplate(const ppc_context* context, const ServiceSpec& spec,
                           const std::string& why, const Repair& repair);
// Other model files have joined it: they are to be in the template, too.
std::string RequestRerecord(const ppc_context* context, const ServiceSpec& spec);

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_TEMPLATE_TEMPLATE_FEEDBACK_H_
