// SPDX-License-Identifier: Apache-2.0
#include "extras/oci/service_messages.h"

#include <ppc/control.h>

#include <cerrno>
#include <optional>

#include "daemon/base/clock.h"
#include "extras/oci/daemon_lines.h"
#include "extras/oci/known_containers.h"
#include "extras/oci/service_request.h"
#include "tools/ppcctl/environment.h"

namespace ppc::oci {
namespace {

constexpr const char* kDefaultPolicy = "maio";

// Sends all requests at once, so that the container need not wait for a policy to start.
Status Ask(const Call& call, const Container& container, ctl::ServiceRequest request,
           unsigned await_s) {
  Result<DaemonLines> lines = DaemonLines::Connect(call.socket, call.deadline_ns);
  if (!lines) return lines.error();
  if (Status status = lines->Send({{"op", "list"}}); !status) return status.error();
  const Result<Json> list = lines->Answer();
  if (!list) return list.error();
  const ctl::Place place = ctl::FindPlace(list->value("mounts", Json::array()), request);
  const bool is_new = place.policy.empty() || !request.policy.empty();
  if (is_new && !call.may_register) {
    return Error{EPERM, place.policy.empty()
                            ? place.directory +
                                  ": no policy is registered here (ppcctl reg_policy " +
                                  place.directory + " maio)"
                            : "ppc.policy: an operator chooses the policy (ppcctl reg_policy)"};
  }
  if (is_new) {
    Status status =
        lines->Send({{"op", "reg_policy"},
                     {"mount", place.directory},
                     {"policy", request.policy.empty() ? kDefaultPolicy : request.policy},
                     {"backend", "auto"}});
    if (!status) return status.error();
  }
  request.spec["mount"] = place.directory;
  if (Status status = lines->Send(request.spec); !status) return status.error();
  if (is_new) {
    if (Result<Json> answer = lines->Answer(); !answer) return answer.error();
  }
  const Result<Json> answer = lines->Answer();
  if (!answer) return answer.error();
  // Further containers of one service are replicas with IDs of their own.
  const Result<std::string> id = JsonString(*answer, "service_id", "");
  if (!id) return id.error();
  Result<KnownContainers> known = KnownContainers::Open(call.notes, call.roots, call.timeout_ms);
  if (!known) return known.error();
  Status status = known->Note(container.id, {place.directory, *id, container.pid});
  if (!status || await_s == 0) return status;
  status = lines->Send({{"op", "service_failed"},
                        {"mount", place.directory},
                        {"service_id", *id},
                        {"wait_s", await_s}});
  if (!status) return status;
  const Result<Json> awaited = lines->Answer();
  return awaited ? Ok() : Status(awaited.error());
}

}  // namespace

Call CallOfEnvironment(unsigned timeout_ms) {
  Call call;
  call.socket = ctl::FromEnvironment("PPC_SOCKET");
  if (call.socket.empty()) call.socket = PPC_DEFAULT_SOCKET;
  call.notes = call.socket.substr(0, call.socket.rfind('/')) + "/oci";
  call.roots = RootsFromEnvironment();
  call.timeout_ms = timeout_ms;
  call.deadline_ns = MonotonicNs() + timeout_ms * kNsPerMs;
  return call;
}

Status StartService(const Call& call, const Container& container, unsigned await_s) {
  if (IsLeftAlone(container)) return Ok();
  const Result<ctl::ServiceRequest> request = RequestOf(container, call.roots);
  if (!request) return request.error();
  return Ask(call, container, *request, await_s);
}

Status StopService(const Call& call, const Container& container) {
  Result<KnownContainers> all = KnownContainers::Open(call.notes, call.roots, call.timeout_ms);
  // No directory of notes: nothing was ever noted.
  if (!all) return all.error().code == ENOENT ? Ok() : Status(all.error());
  const std::optional<ContainerNote> known = all->Forget(container.id);
  if (!known) return Ok();
  Result<DaemonLines> lines = DaemonLines::Connect(call.socket, call.deadline_ns);
  if (!lines) {
    const int code = lines.error().code;
    return code == ENOENT || code == ECONNREFUSED ? Ok() : Status(lines.error());
  }
  Status status = lines->Send(
      {{"op", "service_stop"}, {"mount", known->mount}, {"service_id", known->service_id}});
  if (!status) return status;
  const Result<Json> answer = lines->Answer();
  // The policy saves what it has learnt meanwhile.
  const bool is_well = answer || answer.error().code == ENOENT || answer.error().code == ETIMEDOUT;
  return is_well ? Ok() : Status(answer.error());
}

}  // namespace ppc::oci
