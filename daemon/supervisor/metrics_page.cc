// SPDX-License-Identifier: Apache-2.0
#include "daemon/supervisor/metrics_page.h"

#include <cerrno>
#include <utility>

#include "daemon/base/clock.h"

namespace ppc::control {

void MetricsPage::NoteReady(const std::string& directory, Service& service, const Json& answer) {
  const bool is_first = !std::exchange(service.is_ready, true);
  const uint64_t began = std::exchange(service.started_ns, 0);
  if (!is_first || began == 0) return;
  const Result<std::string> treatment = JsonString(answer, "treatment", "policy");
  start_times_.Add(directory, treatment ? *treatment : "policy",
                   static_cast<double>(MonotonicNs() - began) / 1e9);
}

void MetricsPage::TakeNodeState(const Json& body) {
  node_state_ = body.at("node");
  node_state_until_ns_ = MonotonicNs() + body.at("for_s").get<uint64_t>() * kNsPerSec;
}

std::string MetricsPage::Text(const Json& status, MetricsFormat format) const {
  const bool is_fresh = MonotonicNs() < node_state_until_ns_;
  return MetricsText(status, start_times_, format, is_fresh ? node_state_ : Json());
}

Result<MetricsFormat> MetricsPage::FormatOf(const Json& body) {
  const std::string wanted = body.value("format", "openmetrics");
  if (wanted == "openmetrics") return MetricsFormat::kOpenMetrics;
  if (wanted == "prometheus") return MetricsFormat::kPrometheus;
  return Error{EINVAL, "\"format\" must be \"openmetrics\" or \"prometheus\""};
}

}  // namespace ppc::control
