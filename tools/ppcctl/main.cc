// SPDX-License-Identifier: Apache-2.0
// ppcctl: from the command line to a verb.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <span>
#include <string_view>

#include "tools/ppcctl/args.h"
#include "tools/ppcctl/output.h"
#include "tools/ppcctl/program.h"
#include "tools/ppcctl/run.h"

namespace ppc::ctl {
namespace {

constexpr std::string_view kRun = "run";

bool IsJson(std::string_view argument) { return argument == "--json" || argument == "-j"; }

// Works on arguments that may be wrong: those before "--" count.
bool AskForJson(std::span<char* const> arguments) {
  const auto end = std::find(arguments.begin(), arguments.end(), std::string_view("--"));
  return std::any_of(arguments.begin(), end, IsJson);
}

int Main(std::span<char*> arguments) {
  // An option of every verb may come before it.
  if (arguments.size() > 1 && IsJson(arguments[0])) {
    const auto end = std::find(arguments.begin(), arguments.end(), std::string_view("--"));
    std::rotate(arguments.begin(), arguments.begin() + 1, end);
  }
  if (arguments.empty()) {
    std::fprintf(stderr, "%s", cli::Help(CtlProgram()).c_str());
    return kExitUsage;
  }
  const bool is_run = arguments[0] == kRun;
  if (AskForJson(arguments)) SetOutput(is_run ? Output::kMessages : Output::kJson);
  const Result<cli::Parsed> parsed = cli::Parse(CtlProgram(), arguments);
  if (!parsed) {
    const int status = WrongUsage(parsed.error().message);
    return FinishOutput(is_run ? kExitRunFailed : status);
  }
  if (parsed->verb != nullptr) return FinishOutput(parsed->verb->run(parsed->args));
  std::printf("%s", parsed->text.c_str());
  return kExitOk;
}

}  // namespace
}  // namespace ppc::ctl

int main(int argc, char** argv) {
  try {
    return ppc::ctl::Main(
        std::span<char*>(argv, static_cast<size_t>(argc)).subspan(argc > 0 ? 1 : 0));
  } catch (const std::exception& e) {
    std::fprintf(stderr, "ppcctl: internal error: %s\n", e.what());
    return argc > 1 && argv[1] == ppc::ctl::kRun ? ppc::ctl::kExitRunFailed : ppc::ctl::kExitFailed;
  }
}
