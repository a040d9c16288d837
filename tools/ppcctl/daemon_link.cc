// SPDX-License-Identifier: Apache-2.0
#include "tools/ppcctl/daemon_link.h"

#include <cerrno>

#include "tools/ppcctl/args.h"

namespace ppc::ctl {

DaemonLink::DaemonLink(unsigned timeout_ms, const std::string& socket) {
  ppc_client* client = nullptr;
  connect_code_ = ppc_connect(socket.empty() ? nullptr : socket.c_str(), timeout_ms, &client);
  client_.reset(client);
}

Result<Json> DaemonLink::Ask(const Json& request) {
  is_unreachable_ = connect_code_ != 0;
  if (connect_code_ != 0) return Error{-connect_code_, ppc_error(client_.get())};
  const int code = ppc_request(client_.get(), DumpJson(request).c_str());
  if (code != 0) {
    is_unreachable_ = *ppc_reply(client_.get()) == '\0' && code != -E2BIG;
    return Error{-code, ppc_error(client_.get())};
  }
  return ParseJsonObject(ppc_reply(client_.get()), "answer of ppcd");
}

int DaemonLink::Report(const Error& error) const {
  Complain(error);
  return is_unreachable_ ? kExitUnreachable : kExitFailed;
}

Outcome AskOnce(const Json& request, unsigned timeout_ms) {
  DaemonLink link(timeout_ms);
  Result<Json> answer = link.Ask(request);
  if (!answer) return {link.Report(answer.error()), Json::object()};
  return {kExitOk, std::move(answer).value()};
}

}  // namespace ppc::ctl
