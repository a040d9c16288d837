// SPDX-License-Identifier: Apache-2.0
#include "extras/templates/stale_files.h"

#include <cstring>

#include "policies/maio/synth/synth.h"

namespace ppc::ctl {

Json StaleFiles(const maio::Template& t, const std::string& root) {
  maio::DirectorySource source(root);
  Json stale = Json::array();
  for (const maio::TemplateFile& file : t.files) {
    maio::ModelSource::Info info;
    std::string problem;
    if (const int rc = source.Stat(file.path, &info); rc != 0) {
      problem = std::strerror(-rc);
    } else if (info.size != file.size) {
      problem = "has " + std::to_string(info.size) + " bytes, had " + std::to_string(file.size);
    } else if (file.fingerprint != maio::Fingerprint{} &&
               maio::FileFingerprint(&source, file.path, info.size, nullptr) != file.fingerprint) {
      problem = "has another content";
    }
    if (!problem.empty()) stale.push_back({{"path", file.path}, {"problem", problem}});
  }
  return stale;
}

}  // namespace ppc::ctl
