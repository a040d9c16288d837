// SPDX-License-Identifier: Apache-2.0
// Owns the options of ppcctl's verbs, as the table in program.cc has them.
#ifndef PPC_TOOLS_PPCCTL_PROGRAM_OPTIONS_H_
#define PPC_TOOLS_PPCCTL_PROGRAM_OPTIONS_H_

#include <array>

#include "daemon/cli/command_line.h"

namespace ppc::ctl {

using cli::Option;

inline constexpr std::array kCommon = {
    Option{"--json", nullptr, "print one JSON object, of an error too", 'j'}};

inline constexpr Option kId = {"--id", "ID", "service ID; default: computed from --param"};
inline constexpr Option kParam = {"--param", "KEY=VALUE", "parameter of the service (repeat)"};
inline constexpr Option kParams = {"--params", "JSON|@FILE", "parameters as one JSON object"};
inline constexpr Option kXpu = {"--xpu", "LIST", "XPU of each worker, e.g. 0,1,2,3"};
inline constexpr Option kWorkers = {"--workers", "N", "number of workers; default: one per XPU"};
inline constexpr Option kNodeWorkers = {
    "--workers", "N",
    "number of workers, or FIRST-LAST: those of a service on several\n"
    "nodes that are this node's; default: one per XPU"};
inline constexpr Option kNode = {"--node", "K", "this node's number, of --nodes, from 0"};
inline constexpr Option kNodes = {"--nodes", "N", "nodes that the service runs on"};
inline constexpr Option kCgroup = {"--cgroup", "PATH",
                                   "who pays for the cache; default: the caller's"};
inline constexpr Option kTimeout = {"--timeout", "SECONDS", "wait for ppcd at most so long"};

inline constexpr std::array kTimeoutOnly = {kTimeout};
inline constexpr std::array kStartOptions = {
    kId,
    kParam,
    kParams,
    kXpu,
    kNodeWorkers,
    kNode,
    kNodes,
    kCgroup,
    Option{"--pid", "PID", "root process of the service: its end stops the service"},
    kTimeout};
inline constexpr std::array kNameOptions = {kId, kParam, kParams, kTimeout};
inline constexpr std::array kFailedOptions = {
    kId, kParam, kParams,
    Option{"--within", "SECONDS", "for so long; default: as the policy is set"}, kTimeout};
inline constexpr std::array kRegOptions = {
    Option{"--backend", "KIND",
           "auto (default: kmod on a ppc mount, else observer), kmod, observer, poll", 0,
           "auto kmod observer poll"},
    kTimeout};
inline constexpr std::array kRunOptions = {
    kId,
    kParam,
    kParams,
    kXpu,
    kWorkers,
    kCgroup,
    Option{"--policy", "POLICY", "of the directory, if it has none yet (default maio)"},
    Option{"--config", "JSON|@FILE", "the policy's configuration"},
    Option{"--ready-on", "TEXT", "the service is ready when CMD prints TEXT"},
    Option{"--also", "DIR", "another directory that the start reads, as packages (repeat)"},
    Option{"--required", nullptr,
           "do not run CMD if the service cannot be started (exit status 125)"},
    Option{"--timeout", "SECONDS",
           "wait for ppcd at most so long (default 5, 10 when CMD has ended)"}};
inline constexpr std::array kBindOptions = {kId, kParam, kParams,
                                            Option{"--worker", "N", "its worker, from 0"}};
inline constexpr std::array kServiceIdOptions = {
    kParam, kParams, Option{"--verbose", nullptr, "print the text that is hashed, too", 'v'}};

}  // namespace ppc::ctl

#endif  // PPC_TOOLS_PPCCTL_PROGRAM_OPTIONS_H_
