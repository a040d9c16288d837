// SPDX-License-Identifier: Apache-2.0
#include "policies/maio/template/template_feedback.h"

#include <cstdio>

#include "policies/maio/template/template.h"

namespace ppc::maio {

std::string InvalidateTemplate(const ppc_context* context, const ServiceSpec& spec) {
  const std::string part = PartPath(context->template_dir, spec.service_id, spec.node);
  if (spec.nodes > 1) std::rename(part.c_str(), (part + ".stale").c_str());
  const std::string path = TemplatePath(context->template_dir, spec.service_id);
  if (std::rename(path.c_str(), (path + ".stale").c_str()) != 0) return "";
  std::string said = "the template fitted badly and was set aside; the next start records";
  const std::string text = "maio: service " + spec.service_id + ": " + said;
  context->log(context, PPC_LOG_WARNING, text.c_str());
  return said;
}

std::string RequestRerecord(const ppc_context* context, const ServiceSpec& spec) {
  Template t;
  std::string said;
  if (Load(TemplatePath(context->template_dir, spec.service_id), &t, &said) != 0) return "";
  t.flags |= kRerecord;
  const bool is_stored = Store(context->template_dir, t, &said) == 0;
  if (is_stored) said = "other model files have joined; the next start is recorded, too";
  const std::string text = "maio: service " + spec.service_id + ": " + said;
  context->log(context, is_stored ? PPC_LOG_INFO : PPC_LOG_ERROR, text.c_str());
  return said;
}

}  // namespace ppc::maio
