// SPDX-License-Identifier: Apache-2.0
#include "extras/standalone/options.h"

#include <array>
#include <cerrno>

#include "daemon/wire/protocol.h"

namespace ppc {
namespace {

constexpr std::array kOptions = {
    cli::Option{"--mount", "MNT", "directory or ppc mount to serve, without a supervisor"},
    cli::Option{"--policy", "NAME|PATH", "policy, by name or as a .so"},
    cli::Option{"--backend", "KIND",
                "auto (default: kmod on a ppc mount, else observer), kmod, observer, poll", 0,
                "auto kmod observer poll"},
    cli::Option{"--config", "JSON", "configuration of policy and runtime, an object"},
    cli::Option{"--record", "FILE", "write the events taken to FILE, for the replay backend"},
    cli::Option{"--verbose", nullptr, "log more", 'v'}};
const std::array kSelf = {cli::Verb{"", "", "", "", kOptions}};
constexpr std::array kNotes = {
    cli::Note{"Other uses",
              "Without --mount it is a child of ppcd, which speaks to it on descriptor 3\n"
              "(docs/control-protocol.md).  With --serve-loads LANES IDLE_MS it is a child of a\n"
              "runner inside a service's cgroup, with --ask-xpus LIBRARY one that asks a vendor's\n"
              "library which processes compute on which device."},
    cli::Note{"Exit status",
              "0 stopped as asked, 1 could not start, 2 wrong usage, 19 the mount is gone, 20 the\n"
              "policy was dropped for its faults, 21 for a hook that hung, 22 the lease ran out."}};
const cli::Program kProgram = {
    "ppc-runner",
    8,
    "Runs one cache policy on one directory.\n"
    "In the foreground; SIGINT or SIGTERM stops it, and its status is printed as JSON.",
    kSelf,
    {},
    {},
    kNotes,
    control::kVersionText};

}  // namespace

const cli::Program& RunnerProgram() { return kProgram; }

Result<RunnerOptions> ParseRunnerOptions(std::span<char* const> arguments) {
  RunnerOptions options;
  const Result<cli::Parsed> parsed = cli::Parse(kProgram, arguments);
  if (!parsed) return parsed.error();
  const cli::Args& args = parsed->args;
  options.text = parsed->text;
  options.mount = args.Get("--mount");
  options.policy = args.Get("--policy");
  options.backend = args.Get("--backend", options.backend);
  options.config = args.Get("--config", options.config);
  options.record = args.Get("--record");
  options.verbose = args.Has("--verbose");
  options.is_standalone = !options.mount.empty();
  if (options.text.empty() && options.is_standalone == options.policy.empty()) {
    return Error{EINVAL, "--mount and --policy belong together; see ppc-runner --help"};
  }
  return options;
}

}  // namespace ppc
