// SPDX-License-Identifier: Apache-2.0
#include "sim/policy_test_options.h"

#include <array>

#include "daemon/wire/protocol.h"

namespace ppc::sim {
namespace {

constexpr std::array kOptions = {
    cli::Option{"--config", "JSON|@FILE", "configuration of policy and runtime, an object"},
    cli::Option{"--only", "NAME", "play this start-up alone"},
    cli::Option{"--log", "FILE", "play what ppc-runner --record has written, and no other"},
    cli::Option{"--verbose", nullptr, "show what the policy logs", 'v'}};
const std::array kSelf = {cli::Verb{"", "", "FILE.so", "", kOptions}};
constexpr std::array kNotes = {
    cli::Note{
        "Output",
        "A line for each start-up:\n"
        "`ok NAME - what the policy did`, or\n"
        "`not ok NAME - which rule it breaks`: ranges that were refused, hooks that threw or\n"
        "hung, a crash."},
    cli::Note{"Exit status",
              "0 all are ok, 1 one is not, 2 the library cannot be loaded, or wrong usage."}};
const cli::Program kProgram = {
    "ppc-policy-test",
    1,
    "Plays start-ups to a policy library, and says which rules of the ABI it breaks.\n"
    "FILE.so is loaded as ppc-runner does, with the real runtime around it; disk, memory and\n"
    "clock are simulated: no module, no root, a few seconds.  The start-ups are modelled (by read\n"
    "and by mapping, in memory that does not hold the model, with two services, with a stranger;\n"
    "on the module's events and on the observer's), and recorded of real services.",
    kSelf,
    {},
    {},
    kNotes,
    control::kVersionText};

}  // namespace

const cli::Program& PolicyTestProgram() { return kProgram; }

}  // namespace ppc::sim
