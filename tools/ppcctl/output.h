// SPDX-License-Identifier: Apache-2.0
// Owns what ppcctl says: lines for people, or with --json one object on stdout, whatever happens.
// Threads: Complain() any, the rest that of main().
#ifndef PPC_TOOLS_PPCCTL_OUTPUT_H_
#define PPC_TOOLS_PPCCTL_OUTPUT_H_

#include <string>

#include "daemon/base/json.h"
#include "daemon/base/result.h"

namespace ppc::ctl {

// Member "schema" of every object: a higher number has other members, or the same with another
// meaning; new members alone leave it.
inline constexpr int kSchema = 1;

enum class Output {
  kText,
  kJson,      // one object on stdout
  kMessages,  // stdout is a command's: our messages are objects on stderr
};
void SetOutput(Output output);
bool WantsJson();

// "ppcctl: ..." on stderr, one line; with --json kept for the object, too.
void Complain(const std::string& message);
void Complain(const Error& error);
// Complains and returns the exit status: 1.
int Failed(const Error& error);
// The same of wrong usage: 2.
int WrongUsage(const std::string& message);

// On stdout; with --json as an object with "schema" and, if there were complaints, "warnings".
void PrintJson(const Json& value);
// The same on one line, as often as there is something to tell.
void PrintJsonLine(const Json& value);

// Before the program ends: with --json and nothing printed so far {"ok": true}, or "error",
// "exit_status" and, where it is known, "code"; such an error behind lines, too.  Returns
// `exit_status`.
int FinishOutput(int exit_status);

}  // namespace ppc::ctl

#endif  // PPC_TOOLS_PPCCTL_OUTPUT_H_
