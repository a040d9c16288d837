// SPDX-License-Identifier: Apache-2.0
// Owns the options of a registration.  Bytes.
#ifndef POLICIES_KVTIER_CONFIG_H_
#define POLICIES_KVTIER_CONFIG_H_

#include <cstdint>
#include <string>

#include "daemon/base/result.h"

namespace ppc::kvtier {

enum class ReaderIs { kProcess, kThread };

struct Config {
  uint64_t block = 1 << 20;   // larger files are divided into blocks
  uint64_t ahead = 64 << 20;  // of a reader, at most, and at most a quarter of the budget
  uint64_t table = 24 << 20;  // of learnt entries
  ReaderIs reader = ReaderIs::kProcess;
};

// The error names the option.
Result<Config> ParseConfig(const std::string& text);

}  // namespace ppc::kvtier

#endif  // POLICIES_KVTIER_CONFIG_H_
