// SPDX-License-Identifier: Apache-2.0
#include "sim/experts.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>

namespace ppc::sim {
namespace {

class Chooser {
 public:
  Chooser(const ExpertOptions& options, size_t layers, uint32_t experts)
      : options_(options), by_rank_(layers), shares_(experts) {
    double sum = 0;
    for (uint32_t i = 0; i < experts; ++i) shares_[i] = sum += std::pow(i + 1, -options.zipf);
  }
  // Others are the most wanted ones.
  void ChangeTopic() {
    for (std::vector<uint32_t>& its : by_rank_) {
      its.resize(shares_.size());
      std::iota(its.begin(), its.end(), 0);
      // Not std::shuffle: results differ between libraries.
      for (size_t i = its.size(); i > 1; --i) std::swap(its[i - 1], its[random_() % i]);
    }
  }
  // before: what the token before needed of this layer; empty: there is none.
  std::vector<uint32_t> Choose(size_t layer, const std::vector<uint32_t>& before) {
    std::vector<uint32_t> chosen = before;
    for (size_t i = 0; i < options_.used; ++i) {
      if (i < before.size() && Random() < options_.sticky) continue;
      uint32_t expert = 0;
      do {
        expert = Draw(layer);
      } while (std::ranges::find(chosen, expert) != chosen.end());
      if (i < chosen.size()) {
        chosen[i] = expert;
      } else {
        chosen.push_back(expert);
      }
    }
    return chosen;
  }

 private:
  double Random() { return static_cast<double>(random_() >> 11) / 0x1p53; }
  uint32_t Draw(size_t layer) {
    const auto at = std::ranges::upper_bound(shares_, Random() * shares_.back());
    return by_rank_[layer][std::min<size_t>(static_cast<size_t>(at - shares_.begin()),
                                            shares_.size() - 1)];
  }

  const ExpertOptions options_;
  std::mt19937_64 random_{1};
  std::vector<std::vector<uint32_t>> by_rank_;  // of each layer, the most wanted first
  std::vector<double> shares_;                  // of the most wanted ones, up to each
};

}  // namespace

void from_json(const nlohmann::json& json, ExpertOptions& out) {
  for (const auto& [key, value] : json.items()) {
    if (key == "used") {
      value.get_to(out.used);
    } else if (key == "zipf") {
      value.get_to(out.zipf);
    } else if (key == "sticky") {
      value.get_to(out.sticky);
    } else {
      throw std::invalid_argument("has used, zipf and sticky, no \"" + key + "\"");
    }
  }
}

std::vector<Token> ChooseExperts(const ExpertOptions& options, size_t layers, uint32_t experts,
                                 size_t tokens) {
  Chooser chooser(options, layers, experts);
  std::vector<Token> all(tokens, Token(layers));
  for (size_t token = 0; token < tokens; ++token) {
    if (token == 0 || token == tokens / 2) chooser.ChangeTopic();
    for (size_t layer = 0; layer < layers; ++layer) {
      all[token][layer] =
          chooser.Choose(layer, token == 0 ? std::vector<uint32_t>() : all[token - 1][layer]);
    }
  }
  return all;
}

uint64_t LeastMisses(const std::vector<uint64_t>& uses, uint64_t room) {
  std::vector<uint64_t> next(uses.size(), uses.size());
  std::unordered_map<uint64_t, uint64_t> soonest;
  for (size_t i = uses.size(); i-- > 0;) {
    const auto [found, is_last] = soonest.try_emplace(uses[i], i);
    if (!is_last) next[i] = std::exchange(found->second, i);
  }
  std::set<std::pair<uint64_t, uint64_t>> cached;  // next use, which
  uint64_t missed = 0;
  for (size_t i = 0; i < uses.size(); ++i) {
    if (cached.erase({i, uses[i]}) == 0) {
      ++missed;
      if (cached.size() >= room) cached.erase(std::prev(cached.end()));
    }
    cached.emplace(next[i], uses[i]);
  }
  return missed;
}

}  // namespace ppc::sim
