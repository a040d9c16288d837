// SPDX-License-Identifier: Apache-2.0
// Owns the search for harm: random cells from a seed (engine, memory, neighbours, faults, policy),
// each simulated natively and with the policy.  A cell that is slower or reads more than natively,
// beyond the credit, is made smaller and reported as a scenario that reproduces it.  Each cell runs
// in a process of its own, so that a crash or hang counts as harm too.
// Threads: one.
#ifndef PPC_SIM_FUZZ_H_
#define PPC_SIM_FUZZ_H_

#include <cstdint>
#include <functional>
#include <string>

#include "daemon/base/json.h"
#include "sim/experiment.h"

namespace ppc::sim {

inline constexpr double kMaxTimeRatio = 1.03;   // of the native time, beyond the credit
inline constexpr double kMaxBytesRatio = 1.05;  // likewise

struct FuzzOptions {
  uint64_t seed = 1;
  uint64_t first = 0;  // number of the first cell
  uint64_t cells = 100;
  double minutes = 0;         // 0: all cells
  uint64_t credit_mib = 128;  // for a policy's first mistakes
  std::string policy;         // "": any
  bool shrinks = true;
};

struct CellResult {
  uint64_t cell = 0;
  std::string what;  // "time", "bytes", "endless", "crash", "hang", "error"
  std::string why;   // of an error
  Comparison measured;
  Json scenario;  // made smaller, with the expected result
};

struct FuzzResult {
  uint64_t cells = 0;
  uint64_t harms = 0;
};

// The scenario of a cell.
Json FuzzCell(uint64_t seed, uint64_t cell, const FuzzOptions& options);
// Runs a cell in a child; `what` is empty if it does no harm.
CellResult RunCell(const Json& scenario, uint64_t seed);
// Finds a smaller scenario with the same harm.
Json ShrinkCell(Json scenario, const std::string& what, uint64_t seed);
// Calls `tell` with each harm as it is found.
FuzzResult Fuzz(const FuzzOptions& options, const std::function<void(const CellResult&)>& tell);

}  // namespace ppc::sim

#endif  // PPC_SIM_FUZZ_H_
