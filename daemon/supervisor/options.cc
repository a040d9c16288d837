// SPDX-License-Identifier: Apache-2.0
#include "daemon/supervisor/options.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <vector>

#include "daemon/base/log.h"
#include "daemon/base/suggest.h"
#include "daemon/base/text.h"
#include "daemon/policy/plugin.h"
#include "daemon/wire/protocol.h"

namespace ppc::control {
namespace {

// Where distribution packages put policies, whatever prefix ppcd was built with.
constexpr const char* kSystemPolicyDir = "/usr/lib/ppc/policies";

constexpr std::array kOptions = {
    cli::Option{"--socket", "PATH",
                "root's control socket (default $PPC_SOCKET or\n/run/ppc/ppcd.sock)"},
    cli::Option{"--service-socket", "PATH",
                "the services' own (default $PPC_SERVICE_SOCKET or\nservice/ppcd.sock beside the "
                "other; with --private none);\nnone: without"},
    cli::Option{"--state-dir", "DIR", "what is remembered over a restart (default /run/ppc)"},
    cli::Option{"--template-dir", "DIR",
                "what policies learn (default $PPC_TEMPLATE_DIR or\n/var/lib/ppc/templates)"},
    cli::Option{"--metrics", "ADDRESS:PORT", "serve GET /metrics (OpenMetrics) and /health there"},
    cli::Option{"--metrics-token", "FILE",
                "what a reader of /metrics sends as its bearer token: a line of at least 16\n"
                "characters; nobody but the owner may read FILE"},
    cli::Option{"--free-floor", "SIZE",
                "keep so much memory free, not only available, as accelerators need that\n"
                "allocate from it; the kernel reclaims what is coldest"},
    cli::Option{"--private", nullptr, "remove the state directory at the end (ppcctl run does so)"},
    cli::Option{"--no-syscall-filter", nullptr,
                "let policies use all system calls, not only those that ppcd and the policies of\n"
                "this package need"},
    cli::Option{"--log-format", "FORMAT",
                "text (default), or json: one object per line, with directory and service;\n"
                "its runners log the same way",
                0, "text json"},
    cli::Option{"--verbose", nullptr, "log more", 'v'}};
const std::array kSelf = {cli::Verb{"", "", "", "", kOptions}};
constexpr std::array kNotes = {
    cli::Note{
        "Environment",
        "PPC_RUNNER is the program of the runner, PPC_POLICY_DIR where policies lie;\n"
        "PPC_SOCKET, PPC_SERVICE_SOCKET, PPC_TEMPLATE_DIR and PPC_LOG_FORMAT are the defaults of\n"
        "options."},
    cli::Note{"Exit status", "0 stopped by SIGTERM or SIGINT, 1 failed, 2 wrong usage."}};
const cli::Program kProgram = {
    "ppcd",
    8,
    "Supervises the cache policies of PPC: one ppc-runner process per directory.",
    kSelf,
    {},
    {},
    kNotes,
    kVersionText};

// ppc-runner beside ppcd itself.
std::string DefaultRunner() {
  const std::string self = LinkTarget("/proc/self/exe");
  const size_t slash = self.rfind('/');
  return slash == std::string::npos ? "/usr/bin/ppc-runner" : self.substr(0, slash) + "/ppc-runner";
}

// A private ppcd has one user, who has the other socket.
std::string ServiceSocketOf(const cli::Args& args, const Options& options) {
  const std::string usual =
      options.is_private
          ? "none"
          : FromEnvironment("PPC_SERVICE_SOCKET", ServiceSocketBeside(options.socket));
  const std::string path = args.Get("--service-socket", usual);
  return path == "none" ? "" : path;
}

void ScaleTimes(Options& options) {
  const std::string text = FromEnvironment("PPC_TIME_SCALE_PERCENT", "100");
  const int percent = std::clamp(WholeNumber<int>(text).value_or(100), 1, 10000);
  for (Millis* time :
       {&options.init_timeout, &options.start_timeout, &options.control_timeout,
        &options.status_timeout, &options.drain_timeout, &options.death_limit,
        &options.first_back_off, &options.first_retry, &options.quick_death, &options.watch_period,
        &options.silence_limit, &options.idle_limit, &options.memory_period}) {
    *time = *time * percent / 100;
  }
}

// Names NAME of the files libppc_NAME.so.
std::vector<std::string> KnownPolicies(const std::string& dir) {
  constexpr std::string_view kPrefix = "libppc_";
  constexpr std::string_view kSuffix = ".so";
  std::vector<std::string> names;
  for (const std::string& file : EntriesOf(dir)) {
    if (file.starts_with(kPrefix) && file.ends_with(kSuffix)) {
      names.emplace_back(
          file.substr(kPrefix.size(), file.size() - kPrefix.size() - kSuffix.size()));
    }
  }
  return names;
}

std::string Listed(const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  return list.empty() ? "none" : list;
}

bool IsFile(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

}  // namespace

const cli::Program& DaemonProgram() { return kProgram; }

Result<Options> ParseOptions(std::span<char* const> arguments) {
  const Result<cli::Parsed> parsed = cli::Parse(kProgram, arguments);
  if (!parsed) return parsed.error();
  Options options;
  options.text = parsed->text;
  const cli::Args& args = parsed->args;
  options.socket = args.Get("--socket", FromEnvironment("PPC_SOCKET", kDefaultSocket));
  options.state_dir = args.Get("--state-dir", options.state_dir);
  options.template_dir =
      args.Get("--template-dir", FromEnvironment("PPC_TEMPLATE_DIR", options.template_dir));
  options.runner = FromEnvironment("PPC_RUNNER", DefaultRunner());
  options.roots = RootsFromEnvironment();
  options.metrics = args.Get("--metrics");
  options.metrics_token = args.Get("--metrics-token");
  options.log_format = args.Get("--log-format", FromEnvironment(kLogFormatVariable, "text"));
  if (options.log_format != "text" && options.log_format != "json") {
    return Error{EINVAL, "--log-format '" + options.log_format + "': it is text or json"};
  }
  if (args.Has("--free-floor")) {
    const Result<uint64_t> bytes = ParseSize(args.Get("--free-floor"));
    if (!bytes) return Error{EINVAL, "--free-floor: " + bytes.error().message};
    options.free_floor = *bytes;
  }
  options.is_private = args.Has("--private");
  options.is_filtered = !args.Has("--no-syscall-filter");
  options.is_verbose = args.Has("--verbose");
  options.service_socket = ServiceSocketOf(args, options);
  ScaleTimes(options);
  return options;
}

Result<std::string> ResolvePolicy(const std::string& name_or_path) {
  Result<std::string> path = FindPolicy(name_or_path);
  // A path is the client's: whether it is there, the runner says.
  if (!path || name_or_path[0] == '/' || IsFile(*path)) return path;
  const std::string installed = FindPolicy(name_or_path, kSystemPolicyDir).value();
  if (std::getenv("PPC_POLICY_DIR") == nullptr && IsFile(installed)) return installed;
  const std::string dir = path->substr(0, path->rfind('/'));
  const std::vector<std::string> known = KnownPolicies(dir);
  return Error{ENOENT, "policy '" + name_or_path + "' is not in " + dir +
                           DidYouMean(name_or_path, known) + "; there: " + Listed(known)};
}

}  // namespace ppc::control
