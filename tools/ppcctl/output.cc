// SPDX-License-Identifier: Apache-2.0
#include "tools/ppcctl/output.h"

#include <algorithm>
#include <cstdio>
#include <mutex>
#include <vector>

#include "daemon/wire/protocol.h"
#include "tools/ppcctl/args.h"

namespace ppc::ctl {
namespace {

struct Said {
  std::mutex mutex;
  Output output = Output::kText;
  std::vector<std::string> complaints;
  std::string code;  // of the last
  bool is_printed = false;
  bool is_lines = false;  // of them, so far
};

Said& State() {
  static Said said;
  return said;
}

Json WithSchema(const Json& value) {
  Json object = value.is_object() ? value : Json{{"value", value}};
  object["schema"] = kSchema;
  return object;
}

void Take(const std::string& message, const std::string& code) {
  std::string line = message;
  std::replace(line.begin(), line.end(), '\n', ' ');
  Said& said = State();
  const std::lock_guard lock(said.mutex);
  std::fflush(stdout);
  if (said.output == Output::kMessages) {
    std::fprintf(stderr, "%s\n", DumpJson(WithSchema({{"message", line}})).c_str());
  } else {
    std::fprintf(stderr, "ppcctl: %s\n", line.c_str());
  }
  said.complaints.push_back(std::move(line));
  said.code = code;
}

std::string Indented(const Json& value) {
  return value.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

void SetOutput(Output output) { State().output = output; }

bool WantsJson() { return State().output == Output::kJson; }

void Complain(const std::string& message) { Take(message, ""); }

void Complain(const Error& error) { Take(error.message, control::ErrnoName(error.code)); }

int Failed(const Error& error) {
  Complain(error);
  return kExitFailed;
}

int WrongUsage(const std::string& message) {
  Take(message, "EINVAL");
  return kExitUsage;
}

void PrintJson(const Json& value) {
  Said& said = State();
  said.is_printed = true;
  Json object = said.output == Output::kJson ? WithSchema(value) : value;
  if (said.output == Output::kJson && !said.complaints.empty()) {
    object["warnings"] = said.complaints;
  }
  std::printf("%s\n", Indented(object).c_str());
}

void PrintJsonLine(const Json& value) {
  State().is_printed = State().is_lines = true;
  std::printf("%s\n", DumpJson(WithSchema(value)).c_str());
  std::fflush(stdout);
}

int FinishOutput(int exit_status) {
  Said& said = State();
  const bool is_told = said.is_printed && !(said.is_lines && exit_status != kExitOk);
  if (said.output != Output::kJson || is_told) return exit_status;
  Json object = WithSchema({{"ok", exit_status == kExitOk}});
  if (exit_status != kExitOk) {
    object["exit_status"] = exit_status;
    if (!said.complaints.empty()) object["error"] = said.complaints.back();
    if (!said.code.empty()) object["code"] = said.code;
  }
  std::printf("%s\n", said.is_lines ? DumpJson(object).c_str() : Indented(object).c_str());
  return exit_status;
}

}  // namespace ppc::ctl
