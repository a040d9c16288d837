// SPDX-License-Identifier: Apache-2.0
// ppc-oci-worker: started by ppc-oci-hook at a container's hook.  If PPC does not learn of the
// container's service, it prints one line with the reason and exits with a status other than 0.
#include <ppc/control.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <span>
#include <string>

#include "daemon/base/clock.h"
#include "daemon/base/files.h"
#include "daemon/machine/roots.h"
#include "extras/oci/container.h"
#include "extras/oci/daemon_lines.h"
#include "extras/oci/known_containers.h"
#include "extras/oci/programs.h"
#include "extras/oci/service_request.h"
#include "tools/ppcctl/environment.h"
#include "tools/ppcctl/spec.h"

namespace ppc::oci {
namespace {

constexpr const char* kDefaultPolicy = "maio";
constexpr size_t kMaxStateBytes = 1 << 20;

struct Call {
  std::string socket;
  std::string notes;  // directory beside the socket
  SysRoots roots;
  unsigned timeout_ms = 0;  // ours; the launcher's is longer
  uint64_t deadline_ns = 0;
};

// Registers the directory if needed, and starts the service.  Sends both requests at once, so that
// the container need not wait for a policy to start.
Status Ask(const Call& call, const Container& container, ctl::ServiceRequest request) {
  Result<DaemonLines> lines = DaemonLines::Connect(call.socket, call.deadline_ns);
  if (!lines) return lines.error();
  if (Status status = lines->Send({{"op", "list"}}); !status) return status.error();
  const Result<Json> list = lines->Answer();
  if (!list) return list.error();
  const ctl::Place place = ctl::FindPlace(list->value("mounts", Json::array()), request);
  const bool is_new = place.policy.empty() || !request.policy.empty();
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
  return known->Note(container.id, {place.directory, *id, container.pid});
}

Status Start(const Call& call, Container container) {
  if (Status status = ReadConfiguration(container); !status) return status.error();
  if (IsLeftAlone(container)) return Ok();
  const Result<ctl::ServiceRequest> request = RequestOf(container, call.roots);
  if (!request) return request.error();
  return Ask(call, container, *request);
}

// ppcd also sees the process end, so most often nothing is left to stop.
Status Stop(const Call& call, const Container& container) {
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

Status Run(const std::string& timeout) {
  const Result<int64_t> timeout_ms = ctl::ReadWhole("the time-out", timeout, 1);
  if (!timeout_ms) return timeout_ms.error();
  Call call;
  call.socket = FromEnvironment("PPC_SOCKET");
  if (call.socket.empty()) call.socket = PPC_DEFAULT_SOCKET;
  call.notes = call.socket.substr(0, call.socket.rfind('/')) + "/oci";
  call.roots = RootsFromEnvironment();
  call.timeout_ms = static_cast<unsigned>(*timeout_ms * 3 / 4);
  call.deadline_ns = MonotonicNs() + call.timeout_ms * kNsPerMs;
  const Result<std::string> text = ReadFile("/dev/stdin", kMaxStateBytes);
  if (!text) return text.error();
  Result<Container> container = ReadState(*text);
  if (!container) return container.error();
  const auto run = [&]() -> Status {
    // A directory without host files: a word of a command must not match a path of the host.
    if (chdir("/proc/self/attr") != 0 && chdir("/") != 0) return PosixError("/", errno);
    return container->has_stopped ? Stop(call, *container) : Start(call, *container);
  };
  Status status = run();
  if (status) return status;
  return Error{status.error().code, "container " + container->id + ": " + status.error().message};
}

}  // namespace
}  // namespace ppc::oci

int main(int argc, char** argv) {
  const bool is_option = argc > 1 && argv[1][0] == '-';
  if (argc != 2 || is_option) {
    const std::span<char* const> arguments(argv, static_cast<size_t>(argc));
    const ppc::Result<ppc::cli::Parsed> parsed =
        ppc::cli::Parse(ppc::oci::WorkerProgram(), arguments.subspan(argc > 0 ? 1 : 0));
    if (parsed) std::fputs(parsed->text.c_str(), stdout);
    if (!parsed) std::fprintf(stderr, "ppc-oci-worker: %s\n", parsed.error().message.c_str());
    return parsed ? 0 : 2;
  }
  const ppc::Status status = ppc::oci::Run(argv[1]);
  if (status) return 0;
  std::fprintf(stderr, "%s\n", status.error().message.c_str());
  return 1;
}
