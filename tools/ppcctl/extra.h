// SPDX-License-Identifier: Apache-2.0
// Owns how a folder of extras/ shows in ppcctl: its verbs, and what it does around the command of
// `ppcctl run`.  The core knows no extra by name; the build writes the list.
// Threads: as RunPart says; everything else by the main thread.
#ifndef PPC_TOOLS_PPCCTL_EXTRA_H_
#define PPC_TOOLS_PPCCTL_EXTRA_H_

#include <sys/types.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "daemon/base/result.h"
#include "daemon/cli/command_line.h"
#include "tools/ppcctl/args.h"
#include "tools/ppcctl/attachment.h"
#include "tools/ppcctl/model_find.h"
#include "tools/ppcctl/run.h"
#include "tools/ppcctl/run_target.h"

namespace ppc::ctl {

// The command of `run` before it starts.
struct RunStart {
  const Args& args;
  const Target& target;
  const Attachment::Known* service;         // nullptr: it runs without one
  const Result<std::string>& service_name;  // the same for every start of the service
  const Result<std::string>& command_name;  // the same for every start of the command
};

// What an extra does around one command.  An error of it is a warning.
class RunPart {
 public:
  virtual ~RunPart() = default;
  // False: it has no use for Ready().
  virtual bool AwaitsReadiness() const { return true; }
  virtual void Started(pid_t /*pid*/, uint64_t /*begin_ns*/) {}
  // By any thread, more than once.  Does not wait.
  virtual void Ready() {}
  // `status` as RunChild() gives it.  The service has not been stopped yet.
  virtual void Ended(const Result<int>& /*status*/) {}
  virtual void ServiceStopped(const Result<int>& /*status*/) {}
};

struct Extra {
  std::span<const cli::Verb> verbs;
  // The verb that they follow in the manual; if it is absent, they end their group.
  const char* after = nullptr;
  std::span<const cli::Family> families = {};
  const char* environment = nullptr;  // a sentence for the manual
  const char* exit_status = nullptr;  // likewise

  // What it adds to `run`.
  std::span<const cli::Option> run_options = {};
  Status (*check)(const Args& args) = nullptr;
  bool (*needs_service)(const Args& args) = nullptr;  // the command waits until it has started
  // The model that a command whose words name none has read before.
  std::optional<FoundModel> (*remembered)(const std::vector<std::string>& command) = nullptr;
  // nullptr as a result: nothing to do.  May add to the environment of `child`.
  std::shared_ptr<RunPart> (*begin)(const RunStart& start, Child* child) = nullptr;
};

std::span<const Extra> Extras();

}  // namespace ppc::ctl

#endif  // PPC_TOOLS_PPCCTL_EXTRA_H_
