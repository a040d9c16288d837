// SPDX-License-Identifier: Apache-2.0
//
// What is done with the template in the local directory that a start has followed.
// Waits for storage, so it is run in the background.
#ifndef POLICIES_MAIO_TEMPLATE_TEMPLATE_FEEDBACK_H_
#define POLICIES_MAIO_TEMPLATE_TEMPLATE_FEEDBACK_H_

#include <string>

#include "policies/maio/base/config.h"
#include "ppc.h"

namespace ppc::maio {

// These log what has become of it, and return that: a reason for people, "" for nothing.

// It fitted badly: nobody follows it any more, and the next start records.
std::string InvalidateTemplate(const ppc_context* context, const ServiceSpec& spec);
// Other model files have joined it: they are to be in the template, too.
std::string RequestRerecord(const ppc_context* context, const ServiceSpec& spec);

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_TEMPLATE_TEMPLATE_FEEDBACK_H_
