// SPDX-License-Identifier: Apache-2.0
// The figures of a ppcd: those of status, the starts that it has seen, and what `ppcctl node` has
// told of the machine.
#include "daemon/supervisor/monitoring.h"

#include <cerrno>
#include <memory>
#include <string>
#include <utility>

#include "daemon/base/clock.h"
#include "extras/metrics/metrics_server.h"

namespace ppc::control {
namespace {

Result<MetricsFormat> FormatOf(const Json& body) {
  const std::string wanted = body.value("format", "openmetrics");
  if (wanted == "openmetrics") return MetricsFormat::kOpenMetrics;
  if (wanted == "prometheus") return MetricsFormat::kPrometheus;
  return Error{EINVAL, "\"format\" must be \"openmetrics\" or \"prometheus\""};
}

class Metrics : public Monitoring {
 public:
  explicit Metrics(AskStatus ask) : ask_(std::move(ask)) {}

  void NoteReady(const std::string& directory, const std::string& treatment,
                 double seconds) override {
    start_times_.Add(directory, treatment, seconds);
  }

  void Show(const Json& body, const Reply& reply) const override {
    const Result<MetricsFormat> format = FormatOf(body);
    if (!format) return reply(ErrorAnswer(format.error()));
    Tell(*format, [reply, format = *format](std::string text) {
      Json answer = OkAnswer();
      answer["type"] = MetricsType(format);
      answer["text"] = std::move(text);
      reply(std::move(answer));
    });
  }

  void TakeNodeState(const Json& body) override {
    node_state_ = body.at("node");
    node_state_until_ns_ = MonotonicNs() + body.at("for_s").get<uint64_t>() * kNsPerSec;
  }

  Result<int> Serve(EventLoop& loop, const std::string& address,
                    const std::string& token_file) override {
    Result<std::unique_ptr<MetricsServer>> server = MetricsServer::Listen(
        loop, address, token_file,
        [this](MetricsFormat format, const std::function<void(std::string)>& told) {
          Tell(format, told);
        });
    if (!server) return server.error();
    server_ = *std::move(server);
    return server_->port();
  }

 private:
  // Once the runners have said what they count.
  void Tell(MetricsFormat format, const std::function<void(std::string)>& told) const {
    ask_([this, format, told](const Json& status) {
      const bool is_fresh = MonotonicNs() < node_state_until_ns_;
      told(MetricsText(status, start_times_, format, is_fresh ? node_state_ : Json()));
    });
  }

  const AskStatus ask_;
  StartTimes start_times_;
  // Looking for it takes longer than the loop may.
  Json node_state_;
  uint64_t node_state_until_ns_ = 0;
  std::unique_ptr<MetricsServer> server_;
};

}  // namespace

std::unique_ptr<Monitoring> MakeMonitoring(Monitoring::AskStatus ask) {
  return std::make_unique<Metrics>(std::move(ask));
}

}  // namespace ppc::control
