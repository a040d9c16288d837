// SPDX-License-Identifier: Apache-2.0
// Artifacts in ppcctl: the verbs, and `ppcctl run --artifacts` and `--env-from-service`.
#include "tools/ppcctl/extra.h"

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "extras/artifact/run_artifacts.h"
#include "extras/artifact/service_env.h"
#include "extras/artifact/verbs.h"
#include "tools/ppcctl/output.h"
#include "tools/ppcctl/program_options.h"

namespace ppc::ctl {
namespace {

Status Check(const Args& args) {
  if (!args.Has("--artifacts") && (args.Has("--root") || args.Has("--key"))) {
    return Error{EINVAL, "--root and --key are of artifacts; give --artifacts, too"};
  }
  return Ok();
}

// Variables of this process's environment take precedence.
void AddKeptEnvironment(const Args& args, const Result<std::string>& id, Child* child) {
  if (!args.Has("--env-from-service")) return;
  const auto kept = id ? KeptEnvironment(args, *id)
                       : Result<std::vector<std::pair<std::string, std::string>>>(id.error());
  if (!kept) return Complain("warning: --env-from-service: " + kept.error().message);
  child->environment.insert(child->environment.end(), kept->begin(), kept->end());
}

std::shared_ptr<RunPart> Begin(const RunStart& start, Child* child) {
  AddKeptEnvironment(start.args, start.service_name, child);
  if (!start.args.Has("--artifacts")) return nullptr;
  if (start.command_name) return RunArtifacts::Begin(start.args, *start.command_name);
  Complain("warning: artifacts: " + start.command_name.error().message);
  return nullptr;
}

constexpr Option kArtifactRoot = {
    "--root", "NAME=DIR",
    "a directory more, or another for vllm, inductor, triton,\n"
    "flashinfer, deepgemm or cuda; without DIR it is left out (repeat)"};
constexpr Option kArtifactKey = {"--key", "NAME=VALUE",
                                 "another property that must match for a restore (repeat)"};
constexpr Option kArtifactDir = {
    "--dir", "DIR",
    "where bundles lie; default $PPC_ARTIFACT_DIR, else `artifacts` beside\n"
    "the template store"};
constexpr Option kArtifactKeyFile = {
    "--key-file", "FILE",
    "the secret that seals them; default $PPC_ARTIFACT_KEY, else a file `key` there"};
constexpr std::array kCaptureOptions = {
    kId,
    kParam,
    kParams,
    kArtifactRoot,
    kArtifactKey,
    Option{"--compress", "WHEN", "auto (default: files that cannot be cloned), always, never", 0,
           "auto always never"},
    Option{"--limit", "SIZE", "capture nothing if the roots hold more (default 8G)"},
    kArtifactDir,
    kArtifactKeyFile};
constexpr std::array kArtifactRestoreOptions = {
    kId, kParam, kParams, kArtifactRoot, kArtifactKey, kArtifactDir, kArtifactKeyFile};
constexpr std::array kArtifactStoreOptions = {kArtifactDir, kArtifactKeyFile};
constexpr std::array kEnvOptions = {kId, kParam, kParams, kArtifactDir, kArtifactKeyFile};

const std::array kArtifactVerbs = {
    cli::Verb{
        "artifact capture", "Start-up artifacts", "[-- CMD [ARG]...]",
        "Keep the results that a service's start-up compiled and planned, for later starts.\n"
        "A bundle of what engines' cache directories hold now, under the service's ID and a key:\n"
        "GPUs, driver, CPU, versions of CUDA, Python and engines, and with CMD, as the engine is\n"
        "started, a digest of its options.  It is whole or it is not there, whatever happens\n"
        "meanwhile, and this user's alone.",
        kCaptureOptions, ArtifactCapture},
    cli::Verb{"artifact restore", "Start-up artifacts", "[-- CMD [ARG]...]",
              "Put a service's bundle back into the directories of its engine.\n"
              "With the same options and CMD as it was captured.  Files that are there stay.  On "
              "another\n"
              "key nothing is restored; what differs is told, and the exit status is 1.",
              kArtifactRestoreOptions, ArtifactRestore},
    cli::Verb{"artifact verify", "Start-up artifacts", "[ID|ID/KEY]",
              "Read bundles, and check their seals and every byte.\n"
              "Exit status 1 if one is damaged or forged.",
              kArtifactStoreOptions, ArtifactVerify},
    cli::Verb{"artifact list", "Start-up artifacts", "[ID|ID/KEY]",
              "List this user's bundles, ID/KEY each, and what they are for.",
              kArtifactStoreOptions, ArtifactList},
    cli::Verb{"artifact rm", "Start-up artifacts", "[ID|ID/KEY]",
              "Remove a service's bundles, or one of them, and what no other needs.\n"
              "Without ID no bundle, only what none needs.",
              kArtifactStoreOptions, ArtifactRm},
    cli::Verb{
        "service env", "Services", "[ID] [NAME=VALUE]...",
        "Keep values for the next start of a service, or print those that are kept.\n"
        "They are printed as lines for a shell: eval \"$(ppcctl service env ID)\"; `ppcctl run\n"
        "--env-from-service` sets them for its command.  NAME= keeps the value no longer.  They\n"
        "are this user's, lie beside his artifacts, and are no place for secrets.",
        kEnvOptions, ServiceEnv},
};
constexpr std::array kArtifactFamilies = {cli::Family{
    "artifact", "Start-up artifacts", "What start-ups have compiled, to be restored at the next."}};
constexpr std::array kArtifactRunOptions = {
    cli::Option{"--artifacts", nullptr,
                "restore what this service's start compiled before, capture it when ready"},
    cli::Option{"--env-from-service", nullptr,
                "set for CMD what `ppcctl service env` has kept for this service"},
    cli::Option{"--root", "NAME=DIR", "with --artifacts: as of `ppcctl artifact capture` (repeat)"},
    cli::Option{"--key", "NAME=VALUE", "the same"},
};

}  // namespace

Extra ArtifactExtra() {
  return {
      .verbs = kArtifactVerbs,
      .families = kArtifactFamilies,
      .environment = "PPC_ARTIFACT_DIR and PPC_ARTIFACT_KEY are --dir and --key-file of artifact.",
      .run_options = kArtifactRunOptions,
      .check = Check,
      .begin = Begin};
}

}  // namespace ppc::ctl
