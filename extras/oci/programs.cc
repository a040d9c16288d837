// SPDX-License-Identifier: Apache-2.0
#include "extras/oci/programs.h"

#include <array>

#include "daemon/wire/protocol.h"

namespace ppc::oci {
namespace {

constexpr std::array kHookOptions = {
    cli::Option{"--timeout-ms", "N", "longest wait of the container, default 1000, at most 60000"},
    cli::Option{"--worker", "FILE",
                "the worker; else ppc-oci-worker beside this program, or where it is installed"}};
const std::array kHookSelf = {cli::Verb{"", "", "", "", kHookOptions}};
constexpr std::array kHookNotes = {
    cli::Note{"Files",
              "/usr/share/containers/oci/hooks.d/50-ppc.json has podman and CRI-O call it for\n"
              "containers with an annotation `ppc.*`, /usr/share/ppc/cdi/ppc.json for those with\n"
              "the device ppc.dev/service=auto."},
    cli::Note{
        "Exit status",
        "0, whatever came of it; 1 where a container that says ppc.required=true cannot have\n"
        "PPC, and its runtime does not start it then.  Why is one line on stderr and in the\n"
        "system's log."},
    cli::Note{"See also", "ppcd(8), ppc-oci-worker(8)"}};
const cli::Program kHook = {
    "ppc-oci-hook",
    8,
    "Tells ppcd of a container's service, as a hook of an OCI runtime.\n"
    "Called at createRuntime and poststop with the container's state on stdin.  It starts\n"
    "ppc-oci-worker, waits for it until the time is over, and ends it then: the container starts\n"
    "in any case.",
    kHookSelf,
    {},
    {},
    kHookNotes,
    control::kVersionText};

const std::array kWorkerSelf = {cli::Verb{"", "", "TIMEOUT_MS", "", {}}};
constexpr std::array kWorkerNotes = {
    cli::Note{"Environment", "PPC_SOCKET is where ppcd is asked (default /run/ppc/ppcd.sock)."},
    cli::Note{"Exit status",
              "0 ppcd knows of the service, or there is none to tell of; 1 it does not, which one\n"
              "line on stderr says; 2 wrong usage."},
    cli::Note{"See also", "ppc-oci-hook(8)"}};
const cli::Program kWorker = {
    "ppc-oci-worker",
    8,
    "Does the work of ppc-oci-hook, which starts it.\n"
    "Reads a container's state from stdin and its config.json, finds out which model of the host\n"
    "its command loads, and asks ppcd within TIMEOUT_MS to start its service, or to stop it.",
    kWorkerSelf,
    {},
    {},
    kWorkerNotes,
    control::kVersionText};

}  // namespace

const cli::Program& HookProgram() { return kHook; }
const cli::Program& WorkerProgram() { return kWorker; }

}  // namespace ppc::oci
