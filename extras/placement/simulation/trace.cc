// SPDX-License-Identifier: Apache-2.0
#include "extras/placement/simulation/trace.h"

#include <ppc/place.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <string>
#include <utility>

#include "extras/placement/simulation/node.h"

namespace ppc::bench {
namespace {

// The standard's distributions differ between libraries; its generators do not.
class Dice {
 public:
  explicit Dice(uint64_t seed) : bits_(seed) {}
  double Unit() { return static_cast<double>(bits_() >> 11) * 0x1p-53; }
  size_t Below(size_t count) { return static_cast<size_t>(Unit() * static_cast<double>(count)); }
  double Exponential(double mean) { return -mean * std::log(1 - Unit()); }

 private:
  std::mt19937_64 bits_;
};

struct Start {
  double at = 0;
  size_t model = 0;
};

// Sizes independent of popularity: the seed assigns them.
std::vector<double> Sizes(const Trace& trace, Dice* dice) {
  std::vector<double> sizes;
  const double steps = static_cast<double>(std::max<size_t>(trace.models, 2) - 1);
  for (size_t m = 0; m < trace.models; m++)
    sizes.push_back(trace.least_model +
                    (trace.greatest_model - trace.least_model) * static_cast<double>(m) / steps);
  for (size_t m = sizes.size(); m > 1; m--) std::swap(sizes[m - 1], sizes[dice->Below(m)]);
  return sizes;
}

std::vector<Start> Arrivals(const Trace& trace, Dice* dice) {
  std::vector<double> sums;
  double sum = 0;
  for (size_t m = 0; m < trace.models; m++)
    sums.push_back(sum += 1 / std::pow(static_cast<double>(m + 1), trace.zipf));
  std::vector<Start> starts;
  double now = 0;
  for (size_t i = 0; i < trace.starts; i++) {
    now += dice->Exponential(trace.between_s);
    const auto it = std::upper_bound(sums.begin(), sums.end(), dice->Unit() * sum);
    starts.push_back({now, std::min(static_cast<size_t>(it - sums.begin()), sums.size() - 1)});
  }
  return starts;
}

// A control plane: sees only published states.
class Placer {
 public:
  Placer(const Trace& trace, Placement placement, uint64_t seed, std::vector<double> sizes)
      : trace_(trace), placement_(placement), dice_(seed + 1000), sizes_(std::move(sizes)) {
    for (size_t m = 0; m < trace.models; m++) {
      ties_.emplace_back();
      for (size_t n = 0; n < trace.nodes; n++) {
        const std::string node = std::to_string(seed) + "-node-" + std::to_string(n);
        ties_.back().push_back(ppc_place_tie(("model-" + std::to_string(m)).c_str(), node.c_str()));
      }
    }
  }

  size_t Choose(size_t model, const std::vector<NodeNews>& news) {
    switch (placement_) {
      case Placement::kRandom:
        return dice_.Below(news.size());
      case Placement::kLeastLoaded:
        return LeastLoaded(news);
      case Placement::kHashing: {
        const std::vector<uint32_t>& ties = ties_[model];
        return static_cast<size_t>(std::max_element(ties.begin(), ties.end()) - ties.begin());
      }
      case Placement::kScore:
        break;
    }
    return ByScore(model, news);
  }

 private:
  // One of the least loaded nodes, at random.
  size_t LeastLoaded(const std::vector<NodeNews>& news) {
    size_t least = news[0].Loads();
    for (const NodeNews& one : news) least = std::min(least, one.Loads());
    std::vector<size_t> idle;
    for (size_t n = 0; n < news.size(); n++)
      if (news[n].Loads() == least) idle.push_back(n);
    return idle[dice_.Below(idle.size())];
  }

  size_t ByScore(size_t model, const std::vector<NodeNews>& news) {
    std::vector<ppc_place_node> nodes;
    for (size_t n = 0; n < news.size(); n++) nodes.push_back(Described(model, n, news[n]));
    const long best = ppc_place_best(nodes.data(), nodes.size(), nullptr);
    return best < 0 ? 0 : static_cast<size_t>(best);
  }

  ppc_place_node Described(size_t model, size_t n, const NodeNews& news) const {
    ppc_place_node node{};
    node.size = sizeof(node);
    node.flags = PPC_PLACE_TEMPLATE;
    node.model_bytes = static_cast<uint64_t>(sizes_[model]);
    node.resident_bytes = static_cast<uint64_t>(news.resident[model]);
    node.memory_bytes = static_cast<uint64_t>(trace_.cache);
    // The missing part of this model has its memory reserved already.
    node.free_bytes = static_cast<uint64_t>(trace_.cache - news.used + news.to_read[model]);
    node.disk_rate = news.has_loaded ? static_cast<uint64_t>(trace_.disk) : 0;
    for (size_t m = 0; m < sizes_.size(); m++) {
      if (m == model || news.to_read[m] <= 0) continue;
      node.busy_starts++;
      node.busy_bytes += static_cast<uint64_t>(news.to_read[m]);
    }
    node.tie = ties_[model][n];
    return node;
  }

  const Trace& trace_;
  const Placement placement_;
  Dice dice_;
  const std::vector<double> sizes_;
  std::vector<std::vector<uint32_t>> ties_;  // by model and node
};

// Nodes publish one after the other, each every publish_s.
double LastNews(const Trace& trace, size_t node, double now) {
  const double phase =
      trace.publish_s * static_cast<double>(node) / static_cast<double>(trace.nodes);
  return std::floor((now - phase) / trace.publish_s) * trace.publish_s + phase;
}

}  // namespace

const char* NameOf(Placement placement) {
  switch (placement) {
    case Placement::kRandom:
      return "random";
    case Placement::kLeastLoaded:
      return "least loaded";
    case Placement::kHashing:
      return "hashing by model";
    case Placement::kScore:
      return "ppc_place_best";
  }
  return "";
}

Outcome Simulate(const Trace& trace, Placement placement, uint64_t seed) {
  Dice dice(seed);
  const std::vector<double> sizes = Sizes(trace, &dice);
  const std::vector<Start> starts = Arrivals(trace, &dice);
  Placer placer(trace, placement, seed, sizes);
  std::vector<Node> nodes(trace.nodes, Node(trace.cache, trace.disk, sizes));
  std::vector<NodeNews> news;
  for (const Node& node : nodes) news.push_back(node.News());
  std::vector<double> told(trace.nodes, 0);
  std::vector<double> ends(starts.size(), 0);
  for (size_t i = 0; i < starts.size(); i++) {
    for (size_t n = 0; n < nodes.size(); n++) {
      const double last = LastNews(trace, n, starts[i].at);
      if (last <= told[n]) continue;
      nodes[n].AdvanceTo(last);
      news[n] = nodes[n].News();
      told[n] = last;
    }
    Node& chosen = nodes[placer.Choose(starts[i].model, news)];
    chosen.AdvanceTo(starts[i].at);
    chosen.Begin(starts[i].model, i, &ends);
  }
  Outcome outcome;
  for (Node& node : nodes) {
    node.Finish();
    outcome.read_bytes += node.read_bytes();
    if (node.was_used()) outcome.nodes_used++;
  }
  std::vector<double> times;
  for (size_t i = 0; i < starts.size(); i++) times.push_back(ends[i] - starts[i].at);
  std::sort(times.begin(), times.end());
  outcome.mean_s =
      std::accumulate(times.begin(), times.end(), 0.0) / static_cast<double>(times.size());
  outcome.p99_s = times[times.size() * 99 / 100];
  outcome.warm = static_cast<size_t>(
      std::count_if(times.begin(), times.end(), [](double s) { return s < 1e-6; }));
  return outcome;
}

Outcome Average(const Trace& trace, Placement placement, uint64_t seeds) {
  Outcome sum;
  for (uint64_t seed = 1; seed <= seeds; seed++) {
    const Outcome one = Simulate(trace, placement, seed);
    sum.mean_s += one.mean_s / static_cast<double>(seeds);
    sum.p99_s += one.p99_s / static_cast<double>(seeds);
    sum.read_bytes += one.read_bytes / static_cast<double>(seeds);
    sum.warm += one.warm;
    sum.nodes_used += one.nodes_used;
  }
  sum.warm /= seeds;
  sum.nodes_used /= seeds;
  return sum;
}

}  // namespace ppc::bench
