// SPDX-License-Identifier: Apache-2.0
#include "extras/nri/program.h"

#include <array>

#include "daemon/wire/protocol.h"

namespace ppc::nri {
namespace {

constexpr std::array kOptions = {
    cli::Option{"--nri-socket", "PATH", "of the runtime, default /var/run/nri/nri.sock"},
    cli::Option{"--timeout-ms", "N",
                "longest wait of a container, default 1000, at most 1800: a runtime gives up a\n"
                "plugin after 2 s"}};
const std::array kSelf = {cli::Verb{"", "", "", "", kOptions}};
constexpr std::array kNotes = {
    cli::Note{"Environment",
              "PPC_SOCKET is where ppcd is asked (default /run/ppc/ppcd.sock).  NRI_PLUGIN_NAME,\n"
              "NRI_PLUGIN_IDX and NRI_PLUGIN_SOCKET are set by a runtime that starts the plugin."},
    cli::Note{"Files",
              "/opt/nri/plugins/50-ppc, if it is a link to this program: the runtime\n"
              "starts it."},
    cli::Note{"See also", "ppcd(8), ppc-oci-hook(8)"}};
const cli::Program kProgram = {
    "ppc-nri",
    8,
    "Tells ppcd of the services of containers, as an NRI plugin of containerd or CRI-O.\n"
    "For containers of pods with an annotation `ppc.*`: the model is loaded from the moment the\n"
    "container is made, and belongs to it from its start to its end.  A container starts whatever\n"
    "comes of it.",
    kSelf,
    {},
    {},
    kNotes,
    control::kVersionText};

}  // namespace

const cli::Program& Program() { return kProgram; }

}  // namespace ppc::nri
