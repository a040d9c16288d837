// SPDX-License-Identifier: Apache-2.0
// Which experts the tokens of a modelled mixture need: some are wanted more than others, a token
// needs many of the one before, and half way others are the most wanted ones.
#ifndef PPC_SIM_EXPERTS_H_
#define PPC_SIM_EXPERTS_H_

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

namespace ppc::sim {

inline constexpr size_t kPartsOfExpert = 3;  // tensors

struct ExpertOptions {
  uint32_t used = 0;  // of each layer by a token; 0: all is read
  double zipf = 1.1;
  double sticky = 0.5;
};
void from_json(const nlohmann::json& json, ExpertOptions& out);

using Token = std::vector<std::vector<uint32_t>>;  // by layer

// The same for the same numbers.
std::vector<Token> ChooseExperts(const ExpertOptions& options, size_t layers, uint32_t experts,
                                 size_t tokens);

// How many of these uses Belady's optimum misses, with room for so many different ones.
uint64_t LeastMisses(const std::vector<uint64_t>& uses, uint64_t room);

}  // namespace ppc::sim

#endif  // PPC_SIM_EXPERTS_H_
