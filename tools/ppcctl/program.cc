// SPDX-License-Identifier: Apache-2.0
#include "tools/ppcctl/program.h"

#include <array>

#include "daemon/wire/protocol.h"
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
constexpr const char* kArtifacts = "Start-up artifacts";
constexpr const char* kCache = "Page cache";
constexpr const char* kNodes = "Nodes";

constexpr std::span<const Option> kNone;

constexpr std::array kFamilies = {
    Family{"service", kServices, "Tell the policy of a service's start, readiness and end."},
    Family{"template", kTemplates, "What policies have learnt of services."},
    Family{"artifact", kArtifacts, "What start-ups have compiled, to be restored at the next."}};

const std::array kVerbs = {
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
    Verb{"service env", kServices, "[ID] [NAME=VALUE]...",
         "Keep values for the next start of a service, or print those that are kept.\n"
         "They are printed as lines for a shell: eval \"$(ppcctl service env ID)\"; `ppcctl run\n"
         "--env-from-service` sets them for its command.  NAME= keeps the value no longer.  They\n"
         "are this user's, lie beside his artifacts, and are no place for secrets.",
         kEnvOptions, ServiceEnv},
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
    Verb{"report", kState, "[MNT]",
         "Tell what a start-up's time went to, and what limits it.\n"
         "Watches a service that is starting until it is ready: before the model is read, waiting\n"
         "for the disk, in the kernel, own work, without a CPU, asleep.  ppcctl run --report FILE\n"
         "does so from the very beginning; --from shows such a FILE.json later.",
         kReportOptions, Report},
    Verb{"doctor", kState, "[DIR] [-- CMD [ARG]...]",
         "Find out what keeps services from starting faster, and what to do about it.\n"
         "Looks at the kernel, ppcd, the directory (default: all that are registered), its\n"
         "services and who reads it; with CMD also at the options of that command.  Changes\n"
         "nothing, and reads nothing of models but a page where a FUSE server is in doubt.  Each\n"
         "finding has a code, the cause and a remedy.  Exit status 1 if there are problems; notes\n"
         "are none.",
         kTimeoutOnly, Doctor},
    Verb{"support-bundle", kState, "",
         "Write what helps to find a fault into one file, to be sent to whoever is asked.\n"
         "A tar archive, zstd, mode 0600: versions, status, metrics, doctor, the log's tail, file\n"
         "systems, control groups' limits, the names of templates.  No model, no environment;\n"
         "tokens, keys and passwords are taken out of the rest, and it says what else is missing.",
         kBundleOptions, SupportBundle},
    Verb{"xpus", kState, "", "List the accelerators of this machine, as policies number them.",
         kNone, Xpus},
    Verb{
        "node", kNodes, "",
        "Show which models this machine has, and how much of each is in memory.\n"
        "Also the free page cache, the disk's rate and start-ups in progress.  With --publish it\n"
        "stays and keeps this in etcd, under a lease of 10 seconds, and in ppcd's metrics.  While\n"
        "ppcd is down, or once this machine is, the key goes.",
        kNodeVerbOptions, ShowNode},
    Verb{"watch-xllm", kNodes, "",
         "Tell ppcd what the xLLM instances of this machine say of themselves in etcd.\n"
         "An instance registers when it is ready, and its service is told so; one whose lease\n"
         "expires has died, and its service is told that it has failed.  Whose service it is, the\n"
         "process says that listens at its address.  Runs until SIGTERM; root's.",
         kWatchXllmOptions, WatchXllm},
    Verb{"place", kNodes, "",
         "Print the node on which a service of a model starts soonest.\n"
         "By what the nodes publish, or by files.  While etcd is away by what it said last, and a\n"
         "warning.  Exit status 1 if no node has the model.",
         kPlaceOptions, PlaceModel},
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
    Verb{"artifact capture", kArtifacts, "[-- CMD [ARG]...]",
         "Keep what a service's start-up compiled and planned, for the next on such a machine.\n"
         "A bundle of what engines' cache directories hold now, under the service's ID and a key:\n"
         "GPUs, driver, CPU, versions of CUDA, Python and engines, and with CMD, as the engine is\n"
         "started, a digest of its options.  It is whole or it is not there, whatever happens\n"
         "meanwhile, and this user's alone.",
         kCaptureOptions, ArtifactCapture},
    Verb{"artifact restore", kArtifacts, "[-- CMD [ARG]...]",
         "Put a service's bundle back into the directories of its engine.\n"
         "With the same options and CMD as it was captured.  Files that are there stay.  On "
         "another\n"
         "key nothing is restored; what differs is told, and the exit status is 1.",
         kArtifactRestoreOptions, ArtifactRestore},
    Verb{"artifact verify", kArtifacts, "[ID|ID/KEY]",
         "Read bundles, and check their seals and every byte.\n"
         "Exit status 1 if one is damaged or forged.",
         kArtifactStoreOptions, ArtifactVerify},
    Verb{"artifact list", kArtifacts, "[ID|ID/KEY]",
         "List this user's bundles, ID/KEY each, and what they are for.", kArtifactStoreOptions,
         ArtifactList},
    Verb{"artifact rm", kArtifacts, "[ID|ID/KEY]",
         "Remove a service's bundles, or one of them, and what no other needs.\n"
         "Without ID no bundle, only what none needs.",
         kArtifactStoreOptions, ArtifactRm},
};

constexpr std::array kNotes = {
    Note{"Environment",
         "PPC_SOCKET is where the daemon is asked (default /run/ppc/ppcd.sock), and where that is "
         "not\n"
         "to be had PPC_SERVICE_SOCKET (default service/ppcd.sock beside it); PPC_TEMPLATE_DIR is "
         "the\n"
         "template store; PPC_ARTIFACT_DIR and PPC_ARTIFACT_KEY are --dir and --key-file of "
         "artifact;\n"
         "PPC_MOUNT and PPC_SERVICE_ID name a directory and a service; PPC_ETCD is --etcd.  "
         "PPC=off: run starts CMD "
         "and\n"
         "does no more; service ready and phase in a CMD that run started without a service\n"
         "(PPC_RUN=without) tell nobody and succeed."},
    Note{"Exit status",
         "0 done, 1 failed or the answer is no, 2 wrong usage, 3 ppcd is unreachable.\n"
         "run: that of CMD; 127 CMD is not found, 126 it cannot be executed, 125 ppcctl itself\n"
         "failed: wrong usage, or --required is not met.\n"
         "template diff: 0 the same, 1 different, 2 failed."},
};

const cli::Program kProgram = {"ppcctl",
                               1,
                               "Controls the cache policies of PPC through ppcd.",
                               kVerbs,
                               kFamilies,
                               kCommon,
                               kNotes,
                               control::kVersionText};

}  // namespace

const cli::Program& CtlProgram() { return kProgram; }

}  // namespace ppc::ctl
