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
constexpr const char* kTemplates = "Templates";
constexpr const char* kCache = "Page cache";

constexpr std::span<const Option> kNone;

constexpr std::array kFamilies = {
    Family{"service", kServices, "Tell the policy of a service's start, readiness and end."},
    Family{"template", kTemplates, "What policies have learnt of services."}};

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
    Verb{"plan", kServices, "[DIR] [-- CMD [ARG]...]",
         "Show what run would do, and how fast a start can be at best.\n"
         "Nothing is changed, no daemon started, nothing of the model read.  The bound is that of\n"
         "the bytes to be read, the disk's rate and memory, whoever loads: with memory enough\n"
         "max(init + hot load, bytes / rate), else init + max(hot load, (bytes - what is read\n"
         "during init) / rate).",
         kPlanOptions, Plan},
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
    Verb{"wait", kServices, "[MNT]",
         "Wait until a service is ready, or done.\n"
         "Exit status 1 when time is up, or it ended before it was ready.",
         kWaitOptions, Wait},
    Verb{"is-active", kServices, "[MNT]",
         "Tell whether a directory's policy runs, or a service is started.\n"
         "Prints the state; exit status 0 if it is so, 1 if not.",
         kServiceName, IsActive},
    Verb{"bind-pid", kServices, "PID [MNT]", "Tell which worker of a service the process PID is.",
         kBindOptions, BindPid},
    Verb{
        "explain-pid", kServices, "PID [MNT]",
        "Show which worker and XPU the process PID is taken for.\n"
        "What each provider says, in the order in which they are asked, and which one counts (*).\n"
        "Default: on all mounts.",
        kNone, ExplainPid},
    Verb{"list", kState, "", "List the mounts and their policies.", kNone, List},
    Verb{"status", kState, "[MNT]",
         "Show policies, services, counters and the last error.\n"
         "Exit status 1 if a policy has failed or does not answer.",
         kNone, ShowStatus},
    Verb{"top", kState, "[MNT]",
         "Show what services read and load, again and again.\n"
         "READ is the share of the template that was read, MB/S what is loaded ahead, HITS the\n"
         "share of reads since the last look that found their bytes, SLACK how far the loads are\n"
         "ahead of the readers (all: nothing is left to load), LOST events of the directory,\n"
         "LOADED IN when all is loaded at this rate.  Lines, where stdout is no terminal; with\n"
         "--json an object per line.",
         kTopOptions, Top},
    Verb{"events", kState, "[MNT]",
         "Show the states of directories and services.\n"
         "With --follow what changes, too; with --json an object per line.",
         kEventsOptions, Events},
    Verb{"logs", kState, "[MNT]",
         "Show what was logged of a directory, or of all.\n"
         "By ppcd and its runners from the journal if there is one, else what ppcd still knows.",
         kLogsOptions, Logs},
    Verb{"metrics", kState, "",
         "Print what ppcd and its runners count.\n"
         "The same that ppcd serves over HTTP with --metrics ADDRESS:PORT.",
         kMetricsOptions, Metrics},
    Verb{"xpus", kState, "", "List the accelerators of this machine, as policies number them.",
         kNone, Xpus},
    Verb{"residency", kCache, "PATH", "Show how much of a file or directory is in the page cache.",
         kResidencyOptions, Residency},
    Verb{"warm", kCache, "[PATH]",
         "Read files into the page cache now.\n"
         "PATH is a file or directory; with --id or --param it is the mount, and what the\n"
         "service's template names is read.  Exit status 1 if the limit ended it.",
         kWarmOptions, Warm},
    Verb{"drop", kCache, "[PATH]",
         "Drop files from the page cache.\n"
         "What is mapped or dirty stays.  PATH as for warm.",
         kDropOptions, Drop},
    Verb{"template list", kTemplates, "", "List the recorded templates.", kStoreOnly, TemplateList},
    Verb{"template show", kTemplates, "ID|FILE", "Show what a template contains.", kStoreOnly,
         TemplateShow},
    Verb{"template dump", kTemplates, "ID|FILE", "Print a whole template as JSON, every extent.",
         kStoreOnly, TemplateDump},
    Verb{"template diff", kTemplates, "FIRST SECOND",
         "Show which files and bytes only one of two templates has.\n"
         "FIRST and SECOND are IDs or files.  Exit status 0 if they are the same, 1 if they "
         "differ, 2 if that cannot be told.",
         kStoreOnly, TemplateDiff},
    Verb{"template verify", kTemplates, "ID|FILE",
         "Check a template, and with --root that its files have not changed.", kVerifyOptions,
         TemplateVerify},
    Verb{"template merge", kTemplates, "ID|FILE...",
         "Put the parts that several nodes recorded together.\n"
         "The result becomes the service's template.  With --store the ID of a service stands for\n"
         "all of its parts there.",
         kStoreOnly, TemplateMerge},
    Verb{"template rerecord", kTemplates, "ID",
         "Have the service's next start recorded.\n"
         "It follows the template it has meanwhile.",
         kStoreOnly, TemplateRerecord},
    Verb{"template rm", kTemplates, "ID", "Remove a template: the next start records it anew.",
         kStoreOnly, TemplateRm},
    Verb{"template synth", kTemplates, "DIR",
         "Make a template from the headers of the model in DIR, without a recording.\n"
         "Loaders: mmap and read take the slices of each of the --tp workers file by file (with\n"
         "-layers layer by layer), whole has every worker read all, ranks deals files out.",
         kSynthOptions, TemplateSynth},
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
    "failed: wrong usage, or --required is not met.\n"
    "template diff: 0 the same, 1 different, 2 failed.";

// The core's table with what the extras add.
class VerbTable {
 public:
  VerbTable()
      : run_options_(kRunOptions.begin(), kRunOptions.end()),
        verbs_(kCoreVerbs.begin(), kCoreVerbs.end()),
        families_(kFamilies.begin(), kFamilies.end()),
        environment_(kEnvironment) {
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
    notes_ = {Note{"Environment", environment_.c_str()}, Note{"Exit status", kExitStatus}};
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
    verbs_.insert(verbs_.end(), extra.verbs.begin(), extra.verbs.end());
    families_.insert(families_.end(), extra.families.begin(), extra.families.end());
    if (extra.environment != nullptr) environment_ += "\n" + std::string(extra.environment);
  }

  std::vector<Option> run_options_;
  std::vector<Verb> verbs_;
  std::vector<Family> families_;
  std::string environment_;
  std::vector<Note> notes_;
  cli::Program program_;
};

}  // namespace

const cli::Program& CtlProgram() {
  static const VerbTable table;
  return table.program();
}

}  // namespace ppc::ctl
