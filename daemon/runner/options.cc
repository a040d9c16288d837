// SPDX-License-Identifier: Apache-2.0
#include "daemon/runner/options.h"

#include <getopt.h>

#include <cerrno>

namespace ppc {

const char* RunnerUsage() {
  return "usage: ppc-runner --mount MNT --policy NAME|PATH [--config JSON] [--record FILE] "
         "[--backend KIND] [--verbose]\n"
         "Runs one cache policy on one directory in the foreground; SIGINT or SIGTERM stops it,\n"
         "and its status is printed as JSON.  Without --mount it is a child of ppcd and is\n"
         "spoken to on descriptor 3 (docs/control-protocol.md).\n"
         "With --serve-loads LANES IDLE_MS it is a child of a runner, inside a service's cgroup.\n"
         "  --record FILE  write the events taken to FILE, for the replay backend\n";
}

Result<RunnerOptions> ParseRunnerOptions(int argc, char** argv) {
  static const option kLong[] = {
      {"mount", required_argument, nullptr, 'm'},   {"policy", required_argument, nullptr, 'p'},
      {"backend", required_argument, nullptr, 'b'}, {"config", required_argument, nullptr, 'c'},
      {"record", required_argument, nullptr, 'r'},  {"verbose", no_argument, nullptr, 'v'},
      {"help", no_argument, nullptr, 'h'},          {nullptr, 0, nullptr, 0}};
  RunnerOptions options;
  optind = 1;
  for (int key = 0; (key = getopt_long(argc, argv, "hv", kLong, nullptr)) != -1;) {
    switch (key) {
      case 'm':
        options.mount = optarg;
        break;
      case 'p':
        options.policy = optarg;
        break;
      case 'b':
        options.backend = optarg;
        break;
      case 'c':
        options.config = optarg;
        break;
      case 'r':
        options.record = optarg;
        break;
      case 'v':
        options.verbose = true;
        break;
      case 'h':
        options.show_help = true;
        break;
      default:
        return Error{EINVAL, "see ppc-runner --help"};
    }
  }
  if (optind != argc) {
    return Error{EINVAL,
                 std::string("unexpected argument ") + argv[optind] + "; see ppc-runner --help"};
  }
  options.is_standalone = !options.mount.empty();
  if (options.is_standalone == options.policy.empty()) {
    return Error{EINVAL, "--mount and --policy belong together; see ppc-runner --help"};
  }
  return options;
}

}  // namespace ppc
