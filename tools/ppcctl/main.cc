// SPDX-License-Identifier: Apache-2.0
// ppcctl: the table of verbs.
#include <array>
#include <cstdio>
#include <exception>
#include <string_view>

#include "daemon/wire/protocol.h"
#include "tools/ppcctl/args.h"
#include "tools/ppcctl/daemon_link.h"
#include "tools/ppcctl/verbs.h"

namespace ppc::ctl {
namespace {

constexpr Option kJson = {"--json", nullptr, "print JSON", 'j'};
constexpr Option kId = {"--id", "ID", "service ID; default: computed from --param"};
constexpr Option kParam = {"--param", "KEY=VALUE", "parameter of the service (repeat)"};
constexpr Option kParams = {"--params", "JSON|@FILE", "parameters as one JSON object"};
constexpr Option kXpu = {"--xpu", "LIST", "XPU of each worker, e.g. 0,1,2,3"};
constexpr Option kWorkers = {"--workers", "N", "number of workers; default: one per XPU"};
constexpr Option kCgroup = {"--cgroup", "PATH", "who pays for the cache; default: the caller's"};
constexpr Option kTimeout = {"--timeout", "SECONDS", "wait for ppcd at most so long"};

constexpr std::array kJsonOnly = {kJson};
constexpr std::array kTimeoutOnly = {kTimeout};
constexpr std::array kStartOptions = {
    kId,
    kParam,
    kParams,
    kXpu,
    kWorkers,
    kCgroup,
    Option{"--pid", "PID", "root process of the service: its end stops the service"},
    kJson,
    kTimeout};
constexpr std::array kNameOptions = {kId, kParam, kParams, kTimeout};
constexpr std::array kRegOptions = {
    Option{"--backend", "KIND",
           "auto (default: kmod on a ppc mount, else observer), kmod, observer, poll"},
    kTimeout};
constexpr std::array kRunOptions = {
    kId,
    kParam,
    kParams,
    kXpu,
    kWorkers,
    kCgroup,
    Option{"--policy", "POLICY", "of the directory, if it has none yet (default maio)"},
    Option{"--config", "JSON|@FILE", "the policy's configuration"},
    Option{"--ready-on", "TEXT", "the service is ready when CMD prints TEXT"},
    Option{"--required", nullptr,
           "do not run CMD if the service cannot be started (exit status 125)"},
    Option{"--timeout", "SECONDS",
           "wait for ppcd at most so long (default 5, 10 when CMD has ended)"}};
constexpr std::array kServiceIdOptions = {
    kParam, kParams, Option{"--verbose", nullptr, "print the text that is hashed, too", 'v'},
    kJson};
constexpr Option kStore = {"--dir", "DIR",
                           "template store; default $PPC_TEMPLATE_DIR, else for root\n"
                           "                          /var/lib/ppc/templates, for others that in\n"
                           "                          ~/.local/state/ppc"};
constexpr std::array kTemplateOptions = {kJson, kStore};
constexpr std::array kVerifyOptions = {
    kStore, Option{"--root", "MNT", "also look whether the files below MNT are the same"}};
constexpr std::array kStoreOnly = {kStore};
constexpr std::array kSynthOptions = {
    kId,
    kParam,
    kParams,
    Option{"--tp", "N", "tensor-parallel workers (default 1)"},
    Option{"--loader", "KIND",
           "mmap (default), read, mmap-layers, read-layers, whole (default of GGUF), ranks"},
    Option{"--root", "MNT", "what the mount shows; default: the ppc mount that DIR lies on"},
    kStore,
    kJson};
constexpr std::array kResidencyOptions = {
    kJson, Option{"--nodes", nullptr, "bytes per NUMA node (ppc mounts, needs root)", 'n'}};

const std::array kVerbs = {
    Verb{"reg_policy", "DIR POLICY [CONFIG]",
         "Put the directory DIR under POLICY, a name or an absolute path of a .so.\n"
         "CONFIG is a JSON object or @FILE.  Repeating an identical registration is fine.",
         2, 3, false, kRegOptions, RegPolicy},
    Verb{"rm_policy", "DIR", "Give the directory back to the kernel's native policy.", 1, 1, false,
         kTimeoutOnly, RmPolicy},
    Verb{"service start", "MNT", "Tell the policy of MNT that a service starts.", 0, 1, false,
         kStartOptions, ServiceStart},
    Verb{"service ready", "[MNT]",
         "Tell the policy that a service has loaded its model.\n"
         "MNT and --id default to $PPC_MOUNT and $PPC_SERVICE_ID, which `ppcctl run` sets.",
         0, 1, false, kNameOptions, ServiceReady},
    Verb{"service stop", "[MNT]", "Tell the policy that a service has ended.", 0, 1, false,
         kNameOptions, ServiceStop},
    Verb{"run", "[DIR] -- CMD [ARG]...",
         "Start a service, run CMD, and stop the service when CMD ends.\n"
         "DIR is where the model lies, or a file of it.  Without it CMD's words are searched: "
         "model\n"
         "files, directories with some, Hugging Face names in the hub cache.  If they name none, "
         "the\n"
         "big model files that CMD opens are noted, and its next start is accelerated.\n"
         "The service's ID comes from the model, the tensor-parallel size and the program, unless\n"
         "--id or --param say otherwise.\n"
         "If a ppcd runs, DIR is registered with it where it is not, and stays so afterwards (see\n"
         "rm_policy).  If none runs, one is started that ends with CMD; an ordinary user's keeps\n"
         "what it learns in ~/.local/state/ppc/templates.\n"
         "The service is ready when CMD calls `ppcctl service ready`, prints the --ready-on text,\n"
         "sends READY=1 to $NOTIFY_SOCKET (passed on to ppcctl's own), or ends with status 0; a\n"
         "recording also ends when CMD has read nothing for a while.  Signals are passed on; the\n"
         "exit status is CMD's.  What goes wrong is one warning, CMD runs all the same (but see\n"
         "--required).",
         0, 1, true, kRunOptions, Run},
    Verb{"service-id", "", "Print the ID of the service that has these parameters.", 0, 0, false,
         kServiceIdOptions, ServiceId},
    Verb{"list", "", "List the mounts and their policies.", 0, 0, false, kJsonOnly, List},
    Verb{"status", "[MNT]", "Show policies, services, counters and the last error.", 0, 1, false,
         kJsonOnly, ShowStatus},
    Verb{"explain-pid", "PID [MNT]",
         "Show which worker and XPU the process PID is taken for: what each provider says, in the\n"
         "order in which they are asked, and which one counts (*).  Default: on all mounts.",
         1, 2, false, kJsonOnly, ExplainPid},
    Verb{"policy", "MNT MESSAGE",
         "Send MESSAGE (a JSON object with \"op\", or @FILE) to the policy of MNT.", 2, 2, false,
         kTimeoutOnly, PolicyMessage},
    Verb{"template list", "", "List the recorded templates.", 0, 0, false, kTemplateOptions,
         TemplateList},
    Verb{"template show", "ID|FILE", "Show what a template contains.", 1, 1, false,
         kTemplateOptions, TemplateShow},
    Verb{"template dump", "ID|FILE", "Print a whole template as JSON, every extent.", 1, 1, false,
         kTemplateOptions, TemplateDump},
    Verb{"template diff", "ID|FILE ID|FILE",
         "Show which files and bytes only one of two templates has.\n"
         "Exit status 1 if they differ.",
         2, 2, false, kTemplateOptions, TemplateDiff},
    Verb{"template verify", "ID|FILE",
         "Check a template, and with --root that its files have not changed.", 1, 1, false,
         kVerifyOptions, TemplateVerify},
    Verb{"template merge", "FILE...",
         "Put the parts that several nodes recorded together, as the service's template.", 1, 256,
         false, kTemplateOptions, TemplateMerge},
    Verb{"template rerecord", "ID",
         "Have the service's next start recorded; it follows the template it has meanwhile.", 1, 1,
         false, kStoreOnly, TemplateRerecord},
    Verb{"template rm", "ID", "Remove a template: the next start records it anew.", 1, 1, false,
         kStoreOnly, TemplateRm},
    Verb{"template synth", "DIR",
         "Make a template from the headers of the model in DIR, without a recording.\n"
         "Loaders: mmap and read take the slices of each of the --tp workers file by file (with\n"
         "-layers layer by layer), whole has every worker read all, ranks deals files out.",
         1, 1, false, kSynthOptions, TemplateSynth},
    Verb{"residency", "PATH", "Show how much of a file or directory is in the page cache.", 1, 1,
         false, kResidencyOptions, Residency},
};

int Main(std::span<char* const> arguments) {
  const std::string_view first = arguments.empty() ? "" : arguments[0];
  if (first.empty() || first == "--help" || first == "-h" || first == "help") {
    std::fprintf(first.empty() ? stderr : stdout, "%s", OverallHelp(kVerbs).c_str());
    return first.empty() ? kExitUsage : kExitOk;
  }
  if (first == "--version") {
    std::printf("ppcctl %s\n", control::kVersionText);
    return kExitOk;
  }
  const Verb* verb = FindVerb(kVerbs, arguments);
  if (verb == nullptr) {
    return WrongUsage("unknown verb '" + std::string(first) + "'; see ppcctl --help");
  }
  const Result<Args> args = ParseArgs(*verb, arguments.subspan(WordCount(*verb)));
  if (!args) return WrongUsage(args.error().message);
  if (args->Has("--help")) {
    std::printf("%s", VerbHelp(*verb).c_str());
    return kExitOk;
  }
  return verb->run(*args);
}

}  // namespace
}  // namespace ppc::ctl

int main(int argc, char** argv) {
  try {
    return ppc::ctl::Main(
        std::span<char* const>(argv, static_cast<size_t>(argc)).subspan(argc > 0 ? 1 : 0));
  } catch (const std::exception& e) {
    std::fprintf(stderr, "ppcctl: internal error: %s\n", e.what());
    return 1;
  }
}
