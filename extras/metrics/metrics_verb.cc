// SPDX-License-Identifier: Apache-2.0
// ppcctl metrics: what ppcd serves over HTTP, without HTTP.
#include <array>
#include <cstdio>

#include "tools/ppcctl/daemon_link.h"
#include "tools/ppcctl/extra.h"
#include "tools/ppcctl/output.h"
#include "tools/ppcctl/program_options.h"
#include "tools/ppcctl/spec.h"

namespace ppc::ctl {

static int Metrics(const Args& args) {
  const Result<unsigned> timeout = ReadTimeoutMs(args, 0);
  if (!timeout) return WrongUsage(timeout.error().message);
  const Outcome outcome =
      AskOnce({{"op", "metrics"}, {"format", args.Get("--format", "openmetrics")}}, *timeout);
  if (outcome.exit_status != kExitOk) return outcome.exit_status;
  if (WantsJson()) {
    PrintJson(
        {{"type", outcome.answer.value("type", "")}, {"text", outcome.answer.value("text", "")}});
  } else {
    std::printf("%s", outcome.answer.value("text", "").c_str());
  }
  return kExitOk;
}

namespace {

constexpr std::array kMetricsOptions = {
    Option{"--format", "FORMAT", "openmetrics (default), or the older text format, prometheus", 0,
           "openmetrics prometheus"},
    kTimeout};

const std::array kMetricsVerbs = {
    cli::Verb{"metrics", "State", "",
              "Print what ppcd and its runners count.\n"
              "The same that ppcd serves over HTTP with --metrics ADDRESS:PORT.",
              kMetricsOptions, Metrics},
};

}  // namespace

Extra MetricsExtra() { return {.verbs = kMetricsVerbs, .after = "logs"}; }

}  // namespace ppc::ctl
