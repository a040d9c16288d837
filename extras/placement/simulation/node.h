// SPDX-License-Identifier: Apache-2.0
// Owns one simulated node: models in its page cache, and loads that share its disk.
// Threads: one.
#ifndef BENCH_PLACEMENT_NODE_H_
#define BENCH_PLACEMENT_NODE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ppc::bench {

// The published state of a node.
struct NodeNews {
  std::vector<double> resident;  // by model
  std::vector<double> to_read;   // by model; of loads in progress
  double used = 0;               // of the page cache
  bool has_loaded = false;       // so the disk's speed is known
  size_t Loads() const;
};

class Node {
 public:
  Node(double cache, double disk, const std::vector<double>& sizes);

  void AdvanceTo(double now);
  // Begins `start` of `model` now; its end is added to *ends, at once or later.
  void Begin(size_t model, size_t start, std::vector<double>* ends);
  // Runs until nothing is being read.
  void Finish();

  NodeNews News() const;
  double read_bytes() const { return read_; }
  bool was_used() const { return was_used_; }

 private:
  struct Model {
    double resident = 0;
    double to_read = 0;
    uint64_t used_at = 0;  // serial
    std::vector<size_t> waiting;
  };

  double Used() const;
  double NextEnd() const;  // seconds from now; infinite: nothing is read
  void Pass(double seconds);
  // Evicts whole models, least recently used first, until `room` is free or the rest is being
  // loaded or is `kept`.
  void MakeRoom(double room, size_t kept);

  const double cache_;
  const double disk_;
  const std::vector<double> sizes_;
  std::vector<Model> models_;
  std::vector<double>* ends_ = nullptr;
  double now_ = 0;
  double read_ = 0;
  uint64_t serial_ = 0;
  bool has_loaded_ = false;
  bool was_used_ = false;
};

}  // namespace ppc::bench

#endif  // BENCH_PLACEMENT_NODE_H_
