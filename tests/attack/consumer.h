// SPDX-License-Identifier: Apache-2.0
// A cheap runner: attaches, consumes its rings, loads and evicts what it is told of.
#pragma once

#include "attack.h"

namespace ppc::attack {

// Works until told otherwise by a signal or the unmount.  Returns the errno that ended it.
int Consume(const std::string& device, uint64_t seed, uint64_t bytes);

}  // namespace ppc::attack
