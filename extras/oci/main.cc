// SPDX-License-Identifier: Apache-2.0
// ppc-oci-worker: started by ppc-oci-hook at a container's hook.  If PPC does not learn of the
// container's service, it prints one line with the reason and exits with a status other than 0.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <span>
#include <string>

#include "daemon/base/files.h"
#include "extras/oci/container.h"
#include "extras/oci/programs.h"
#include "extras/oci/service_messages.h"
#include "tools/ppcctl/spec.h"

namespace ppc::oci {
namespace {

constexpr size_t kMaxStateBytes = 1 << 20;

Status Start(const Call& call, Container container) {
  if (Status status = ReadConfiguration(container); !status) return status.error();
  return StartService(call, container);
}

Status Run(const std::string& timeout) {
  const Result<int64_t> timeout_ms = ctl::ReadWhole("the time-out", timeout, 1);
  if (!timeout_ms) return timeout_ms.error();
  // The launcher waits longer.
  const Call call = CallOfEnvironment(static_cast<unsigned>(*timeout_ms * 3 / 4));
  const Result<std::string> text = ReadFile("/dev/stdin", kMaxStateBytes);
  if (!text) return text.error();
  Result<Container> container = ReadState(*text);
  if (!container) return container.error();
  const auto run = [&]() -> Status {
    // A directory without host files: a word of a command must not match a path of the host.
    if (chdir("/proc/self/attr") != 0 && chdir("/") != 0) return PosixError("/", errno);
    return container->has_stopped ? StopService(call, *container) : Start(call, *container);
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
