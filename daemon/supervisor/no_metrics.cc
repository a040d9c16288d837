// SPDX-License-Identifier: Apache-2.0
// In place of extras/metrics, where that is left out.
#include <cerrno>

#include "daemon/supervisor/metrics_server.h"

namespace ppc::control {

void StartTimes::Add(const std::string& /*directory*/, const std::string& /*treatment*/,
                     double /*seconds*/) {}

std::string MetricsText(const Json& /*status*/, const StartTimes& /*starts*/,
                        MetricsFormat /*format*/, const Json& /*node*/) {
  return "# this ppcd was built without metrics\n# EOF\n";
}

const char* MetricsType(MetricsFormat /*format*/) { return "text/plain"; }

Result<std::unique_ptr<MetricsServer>> MetricsServer::Listen(EventLoop& /*loop*/,
                                                             const std::string& /*address*/,
                                                             const std::string& /*token_file*/,
                                                             Source /*source*/) {
  return Error{ENOTSUP, "--metrics: this ppcd was built without it"};
}
MetricsServer::~MetricsServer() = default;
int MetricsServer::port() const { return 0; }
void MetricsServer::Stop::operator()(MHD_Daemon* /*daemon*/) const {}

}  // namespace ppc::control
