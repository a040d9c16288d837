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
inline constexpr std::array kReportOptions = {
    kId,
    kParam,
    kParams,
    Option{"--pid", "PID", "its process; default: as the service was started"},
    Option{"--out", "FILE", "write it there: .html, .md, .json, or lines"},
    Option{"--from", "FILE.json", "show one that was written before"}};
inline constexpr std::array kBundleOptions = {
    Option{"--output", "FILE", "write it there; default ppc-support-TIME.tar.zst"}, kTimeout};
inline constexpr std::array kMetricsOptions = {
    Option{"--format", "FORMAT", "openmetrics (default), or the older text format, prometheus", 0,
           "openmetrics prometheus"},
    kTimeout};
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
inline constexpr Option kArtifactRoot = {
    "--root", "NAME=DIR",
    "a directory more, or another for vllm, inductor, triton,\n"
    "flashinfer, deepgemm or cuda; without DIR it is left out (repeat)"};
inline constexpr Option kArtifactKey = {"--key", "NAME=VALUE",
                                        "what else must be the same for a restore (repeat)"};
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
    Option{"--report", "FILE",
           "write what the start-up's time went to: .html, .md, .json, or lines"},
    Option{"--artifacts", nullptr,
           "restore what this service's start compiled before, capture it when ready"},
    Option{"--env-from-service", nullptr,
           "set for CMD what `ppcctl service env` has kept for this service"},
    Option{"--also", "DIR", "another directory that the start reads, as packages (repeat)"},
    Option{"--root", "NAME=DIR", "with --artifacts: as of `ppcctl artifact capture` (repeat)"},
    Option{"--key", "NAME=VALUE", "the same"},
    Option{"--required", nullptr,
           "do not run CMD if the service cannot be started (exit status 125)"},
    Option{"--timeout", "SECONDS",
           "wait for ppcd at most so long (default 5, 10 when CMD has ended)"}};
inline constexpr std::array kPlanOptions = {
    kId,
    kParam,
    kParams,
    kXpu,
    kWorkers,
    kCgroup,
    Option{"--policy", "POLICY", "of the directory, if it has none yet (default maio)"},
    Option{"--config", "JSON|@FILE", "the policy's configuration"},
    Option{"--disk-mbps", "MB/S", "what the disk gives; default: what loads have measured here"},
    Option{"--init", "SECONDS", "before the load begins; default: as it was recorded"},
    Option{"--hot-load", "SECONDS", "the load with everything cached; default 0"},
    kTimeout};
inline constexpr std::array kWaitOptions = {
    kId, kParam, kParams,
    Option{"--for", "WHAT", "ready (default), or done: it has been stopped", 0, "ready done"},
    Option{"--timeout", "SECONDS", "wait at most so long; default: without end"}};
inline constexpr std::array kServiceName = {kId, kParam, kParams};
inline constexpr std::array kBindOptions = {kId, kParam, kParams,
                                            Option{"--worker", "N", "its worker, from 0"}};
inline constexpr Option kInterval = {"--interval", "SECONDS", "between two looks (default 2)"};
inline constexpr Option kCount = {"--count", "N", "end after N looks"};
inline constexpr std::array kTopOptions = {kInterval, kCount};
inline constexpr std::array kEventsOptions = {
    Option{"--follow", nullptr, "go on with what changes", 'f'}, kInterval, kCount};
inline constexpr std::array kNodeVerbOptions = {
    Option{"--name", "NODE", "what other machines call this one; default: its host name"},
    Option{"--publish", "URL", "keep it in the etcd at http://HOST:PORT[/PREFIX] until SIGTERM"},
    Option{"--metrics", nullptr, "keep it in ppcd's metrics until SIGTERM; --publish does so, too"},
    Option{"--interval", "SECONDS", "between two looks (default 3), with either"}};
inline constexpr std::array kWatchXllmOptions = {
    Option{"--etcd", "URL", "where they register, http://HOST:PORT; default: $PPC_ETCD"},
    Option{"--namespace", "NAME", "what xLLM was given as --etcd_namespace"},
    Option{"--instance", "IP:PORT=ID", "the service of that instance (repeat)"},
    Option{"--interval", "SECONDS", "between two looks (default 1)"}};
inline constexpr std::array kPlaceOptions = {
    Option{"--model", "NAME", "as `ppcctl node` lists it, or its path"},
    Option{"--nodes", "LIST", "these alone, e.g. a,b,c; default: all that are known"},
    Option{"--etcd", "URL", "where they publish themselves; default: $PPC_ETCD"},
    Option{"--from", "FILE", "what `ppcctl node --json` printed on one of them (repeat)"},
    Option{"--last", "FILE", "keeps what etcd said last, for when it is away"},
    Option{"--explain", nullptr, "print all nodes, and why each has its score"}};
inline constexpr std::array kLogsOptions = {
    Option{"--id", "ID", "what is about this service alone"},
    Option{"--lines", "N", "the last N (default 100)", 'n'}};
inline constexpr std::array kServiceIdOptions = {
    kParam, kParams, Option{"--verbose", nullptr, "print the text that is hashed, too", 'v'}};
inline constexpr Option kStore = {"--dir", "DIR",
                                  "template store; default $PPC_TEMPLATE_DIR, else for root\n"
                                  "/var/lib/ppc/templates, for others that in ~/.local/state/ppc"};
inline constexpr Option kShared = {
    "--store", "STORE", "dir:/PATH or etcd:http://HOST:PORT/PREFIX that nodes share, instead"};
inline constexpr Option kStoreKey = {"--store-key", "FILE", "key of the templates in it"};
inline constexpr std::array kStoreOnly = {kStore, kShared, kStoreKey};
inline constexpr std::array kVerifyOptions = {
    kStore, kShared, kStoreKey,
    Option{"--root", "MNT", "also look whether the files below MNT are the same"}};
inline constexpr std::array kSynthOptions = {
    kId,
    kParam,
    kParams,
    Option{"--tp", "N", "tensor-parallel workers (default 1)"},
    Option{"--loader", "KIND",
           "mmap (default), read, mmap-layers, read-layers, whole (default of GGUF), ranks", 0,
           "mmap read mmap-layers read-layers whole ranks"},
    Option{"--root", "MNT", "what the mount shows; default: the ppc mount that DIR lies on"},
    kStore,
    kShared,
    kStoreKey};
inline constexpr Option kArtifactDir = {
    "--dir", "DIR",
    "where bundles lie; default $PPC_ARTIFACT_DIR, else `artifacts` beside\n"
    "the template store"};
inline constexpr Option kArtifactKeyFile = {
    "--key-file", "FILE",
    "the secret that seals them; default $PPC_ARTIFACT_KEY, else a file `key` there"};
inline constexpr std::array kCaptureOptions = {
    kId,
    kParam,
    kParams,
    kArtifactRoot,
    kArtifactKey,
    Option{"--compress", "WHEN", "auto (default: what the file system cannot clone), always, never",
           0, "auto always never"},
    Option{"--limit", "SIZE", "capture nothing if the roots hold more (default 8G)"},
    kArtifactDir,
    kArtifactKeyFile};
inline constexpr std::array kArtifactRestoreOptions = {
    kId, kParam, kParams, kArtifactRoot, kArtifactKey, kArtifactDir, kArtifactKeyFile};
inline constexpr std::array kArtifactStoreOptions = {kArtifactDir, kArtifactKeyFile};
inline constexpr std::array kEnvOptions = {kId, kParam, kParams, kArtifactDir, kArtifactKeyFile};
inline constexpr std::array kWarmOptions = {
    kId, kParam, kParams,
    Option{"--limit", "SIZE", "read at most so much; default: half of the available memory"},
    kStore};
inline constexpr std::array kDropOptions = {kId, kParam, kParams, kStore};
inline constexpr std::array kResidencyOptions = {
    Option{"--nodes", nullptr, "bytes per NUMA node (ppc mounts, needs root)", 'n'}};

}  // namespace ppc::ctl

#endif  // PPC_TOOLS_PPCCTL_PROGRAM_OPTIONS_H_
