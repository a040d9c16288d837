// SPDX-License-Identifier: Apache-2.0
// In place of extras/metrics, where that is left out.
#include <cerrno>

#include "daemon/supervisor/monitoring.h"

namespace ppc::control {
namespace {

class NoMonitoring : public Monitoring {
 public:
  void NoteReady(const std::string&, const std::string&, double) override {}
  void Show(const Json& /*body*/, const Reply& reply) const override {
    reply(OkAnswer(
        {{"type", "text/plain"}, {"text", "# this ppcd was built without metrics\n# EOF\n"}}));
  }
  void TakeNodeState(const Json& /*body*/) override {}
  Result<int> Serve(EventLoop&, const std::string&, const std::string&) override {
    return Error{ENOTSUP, "--metrics: this ppcd was built without it"};
  }
};

}  // namespace

std::unique_ptr<Monitoring> MakeMonitoring(Monitoring::AskStatus /*ask*/) {
  return std::make_unique<NoMonitoring>();
}

}  // namespace ppc::control
