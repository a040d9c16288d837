// SPDX-License-Identifier: Apache-2.0
// What monitoring is told: of status, of the starts that this ppcd has seen, and what `ppcctl node`
// has told of the machine.
#include <cerrno>
#include <utility>

#include "daemon/base/clock.h"
#include "daemon/supervisor/registry.h"

namespace ppc::control {

void Registry::Metrics(MetricsFormat format, const std::function<void(std::string)>& told) {
  ShowStatus(Json::object(), [this, format, told](const Json& status) {
    const bool is_fresh = MonotonicNs() < node_state_until_ns_;
    told(MetricsText(status, start_times_, format, is_fresh ? node_state_ : Json()));
  });
}

void Registry::ShowMetrics(const Json& body, const Reply& reply) {
  const std::string wanted = body.value("format", "openmetrics");
  if (wanted != "openmetrics" && wanted != "prometheus") {
    return reply(
        ErrorAnswer(Error{EINVAL, "\"format\" must be \"openmetrics\" or \"prometheus\""}));
  }
  const MetricsFormat format =
      wanted == "prometheus" ? MetricsFormat::kPrometheus : MetricsFormat::kOpenMetrics;
  Metrics(format, [reply, format](std::string text) {
    Json answer = OkAnswer();
    answer["type"] = MetricsType(format);
    answer["text"] = std::move(text);
    reply(std::move(answer));
  });
}

void Registry::TakeNodeState(const Json& body, const Reply& reply) {
  node_state_ = body.at("node");
  node_state_until_ns_ = MonotonicNs() + body.at("for_s").get<uint64_t>() * kNsPerSec;
  reply(OkAnswer());
}

// A service is ready once, however often it says so.
void Registry::NoteReady(const Registration& registration, Service& service, const Json& answer) {
  const bool is_first = !std::exchange(service.is_ready, true);
  const uint64_t began = std::exchange(service.started_ns, 0);
  if (!is_first || began == 0) return;
  start_times_.Add(registration.mount().path, answer.value("treatment", "policy"),
                   static_cast<double>(MonotonicNs() - began) / 1e9);
}

}  // namespace ppc::control
