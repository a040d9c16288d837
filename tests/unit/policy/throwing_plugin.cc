// SPDX-License-Identifier: Apache-2.0
// A policy whose registration throws.
#include <ppc.h>

#include <stdexcept>

ppc_operation* register_policy() { throw std::runtime_error("no luck"); }
