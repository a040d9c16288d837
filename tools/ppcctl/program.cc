// SPDX-License-Identifier: Apache-2.0
#include "tools/ppcctl/program.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/wire/protocol.h"
#include "tools/ppcctl/extra.h"
#include "tools/ppcctl/program_options.h"
#include "tools/ppcctl/verbs.h"

namespace ppc::ctl {
namespace {

using cli::Family;
using cli::Note;
using cli::Option;
using cli::Verb;

constexpr const char* kPolicies = "Policies";
constexpr const char* kServices = "Services";
constexpr const char* kState = "State";

constexpr std::span<const Option> kNone;

constexpr std::array kFamilies = {
    Family{"service", kServices, "Tell the policy of a service's start, readiness and end."}};

const std::array kCoreVerbs = {
    Verb{"reg_policy", kPolicies, "DIR POLICY [CONFIG]",
         "Put the directory DIR under POLICY, a name or an absolute path of a .so.\n"
         "CONFIG is a JSON object or @FILE.  Repeating an identical registration is fine.",
         kRegOptions, RegPolicy},
    Verb{"rm_policy", kPolicies, "DIR", "Give the directory back to the kernel's native policy.",
         kTimeoutOnly, RmPolicy},
    Verb{"policy", kPolicies, "MNT MESSAGE",
         "Send MESSAGE (a JSON object with \"op\", or @FILE) to the policy of MNT.", kTimeoutOnly,
         PolicyMessage},
    Verb{
        "off", kPolicies, "",
        "Switch PPC off on this machine, at once and over a reboot.\n"
        "Every directory is the kernel's alone again, mounts stay and serve.  Services that start\n"
        "meanwhile run natively; what is registered is remembered.  For one command: PPC=off.",
        kTimeoutOnly, Off},
    Verb{"on", kPolicies, "", "Switch it on again, with all that was registered before and since.",
         kTimeoutOnly, On},
    Verb{
        "run", kServices, "[DIR] -- CMD [ARG]...",
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
        "--required).  With --json the warnings are JSON objects.\n"
        "--artifacts restores the service's bundle before CMD starts, and captures one when it is\n"
        "ready: see `ppcctl artifact capture --help`.",
        kRunOptions, Run},
    Verb{"service start", kServices, "[MNT]", "Tell the policy of MNT that a service starts.",
         kStartOptions, ServiceStart},
    Verb{"service ready", kServices, "[MNT]",
         "Tell the policy that a service has loaded its model.\n"
         "MNT and --id default to $PPC_MOUNT and $PPC_SERVICE_ID, which `ppcctl run` sets.",
         kNameOptions, ServiceReady},
    Verb{"service phase", kServices, "[ID] PHASE [MNT]",
         "Tell the policy that a part of a service's start-up begins.\n"
         "PHASE is init, weights (the model is loaded), compile, graphs (they are captured), or\n"
         "ready, which is what `service ready` says.  ID and MNT default to $PPC_SERVICE_ID and\n"
         "$PPC_MOUNT, which `ppcctl run` sets.",
         kNameOptions, ServicePhase},
    Verb{"service failed", kServices, "[MNT]",
         "Tell the policy that a service's process has failed and will be started again.\n"
         "What the next start needs is loaded from now on, before its process exists; `service\n"
         "start` of the same service joins that.  Where it does not come the service is stopped, "
         "and\n"
         "the memory given back.  ppcd knows by itself how the process of --pid has ended.",
         kFailedOptions, ServiceFailed},
    Verb{"service stop", kServices, "[MNT]", "Tell the policy that a service has ended.",
         kNameOptions, ServiceStop},
    Verb{"service-id", kServices, "", "Print the ID of the service that has these parameters.",
         kServiceIdOptions, ServiceId},
    Verb{"bind-pid", kServices, "PID [MNT]", "Tell which worker of a service the process PID is.",
         kBindOptions, BindPid},
    Verb{"list", kState, "", "List the mounts and their policies.", kNone, List},
    Verb{"status", kState, "[MNT]",
         "Show policies, services, counters and the last error.\n"
         "Exit status 1 if a policy has failed or does not answer.",
         kNone, ShowStatus},
    Verb{"xpus", kState, "", "List the accelerators of this machine, as policies number them.",
         kNone, Xpus},
};

constexpr const char* kEnvironment =
    "PPC_SOCKET is where the daemon is asked (default /run/ppc/ppcd.sock), and where that is not\n"
    "to be had PPC_SERVICE_SOCKET (default service/ppcd.sock beside it); PPC_TEMPLATE_DIR is the\n"
    "template store; PPC_MOUNT and PPC_SERVICE_ID name a directory and a service.  PPC=off: run\n"
    "starts CMD and does no more; service ready and phase in a CMD that run started without a\n"
    "service (PPC_RUN=without) tell nobody and succeed.";
constexpr const char* kExitStatus =
    "0 done, 1 failed or the answer is no, 2 wrong usage, 3 ppcd is unreachable.\n"
    "run: that of CMD; 127 CMD is not found, 126 it cannot be executed, 125 ppcctl itself\n"
    "failed: wrong usage, or --required is not met.";

// The core's table with what the extras add.
class VerbTable {
 public:
  VerbTable()
      : run_options_(kRunOptions.begin(), kRunOptions.end()),
        verbs_(kCoreVerbs.begin(), kCoreVerbs.end()),
        families_(kFamilies.begin(), kFamilies.end()),
        environment_(kEnvironment),
        exit_status_(kExitStatus) {
    for (const Extra& extra : Extras()) Add(extra);
    // A heading stands where its first verb does.
    std::map<std::string_view, size_t> headings;
    for (const Verb& verb : verbs_) headings.try_emplace(verb.group, headings.size());
    std::stable_sort(verbs_.begin(), verbs_.end(), [&](const Verb& a, const Verb& b) {
      return headings[a.group] < headings[b.group];
    });
    for (Verb& verb : verbs_) {
      if (verb.run == Run) verb.options = run_options_;
    }
    notes_ = {Note{"Environment", environment_.c_str()}, Note{"Exit status", exit_status_.c_str()}};
    program_ = {"ppcctl",
                1,
                "Controls the cache policies of PPC through ppcd.",
                verbs_,
                families_,
                kCommon,
                notes_,
                control::kVersionText};
  }
  const cli::Program& program() const { return program_; }

 private:
  void Add(const Extra& extra) {
    run_options_.insert(run_options_.end(), extra.run_options.begin(), extra.run_options.end());
    auto place = std::ranges::find_if(verbs_, [&](const Verb& verb) {
      return extra.after != nullptr && std::string_view(verb.name) == extra.after;
    });
    if (place != verbs_.end()) ++place;
    verbs_.insert(place, extra.verbs.begin(), extra.verbs.end());
    families_.insert(families_.end(), extra.families.begin(), extra.families.end());
    if (extra.environment != nullptr) environment_ += "\n" + std::string(extra.environment);
    if (extra.exit_status != nullptr) exit_status_ += "\n" + std::string(extra.exit_status);
  }

  std::vector<Option> run_options_;
  std::vector<Verb> verbs_;
  std::vector<Family> families_;
  std::string environment_;
  std::string exit_status_;
  std::vector<Note> notes_;
  cli::Program program_;
};

}  // namespace

const cli::Program& CtlProgram() {
  static const VerbTable table;
  return table.program();
}

}  // namespace ppc::ctl
