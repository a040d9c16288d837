// SPDX-License-Identifier: Apache-2.0
// The death of a policy's process and what comes after it, see simulator.h.
#include "tests/policy/simulator.h"

namespace ppc::test {

void Simulator::Crash() {
  Exit();
  is_down_ = true;
  loads_.clear();
  results_.clear();
  want = ~0u;
}

int Simulator::Recover() {
  is_down_ = false;
  for (auto& [number, file] : files)
    pages_[number].state.resize((file.size + kPage - 1) / kPage, 0);  // there may be new ones
  for (Reader& r : readers) r.beacon.clear();
  return HostedPolicy::Init();
}

}  // namespace ppc::test
