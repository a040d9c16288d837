// SPDX-License-Identifier: Apache-2.0
// Owns the modelled consumer of a directory of KV-cache objects: layer by layer, it reads all
// chunks in sequence, then computes for a fixed time.  Further passes repeat that after the page
// cache is emptied; the last pass is reported.
// Threads: one.
#ifndef PPC_SIM_KV_SERVICE_H_
#define PPC_SIM_KV_SERVICE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "sim/service.h"

namespace ppc::sim {

enum class KvLayout { kFiles, kLarge };  // one file per object, or one file for all
enum class KvOrder { kChain, kRandom, kChanged };

struct KvOptions {
  bool is_on = false;
  uint32_t layers = 80;
  uint32_t chunks = 64;
  uint64_t object_bytes = 64 << 10;
  double compute_s = 0.02;  // a layer
  uint32_t passes = 2;
  bool is_dropped = true;  // empty the page cache before each pass but the first
  double pause_s = 5;      // between two passes
  KvLayout layout = KvLayout::kFiles;
  // Each pass reads two thirds of the objects.  changed: the last pass leaves the chain half way
  // for the remaining objects; random: each pass has another order.
  KvOrder order = KvOrder::kChain;
  uint32_t swaps_in_100 = 0;  // per cent of neighbours that swap places in each pass
  uint64_t objects() const { return uint64_t{layers} * chunks; }  // of a pass
  uint64_t files() const { return objects() / 2 * 3; }
  uint64_t bytes() const { return objects() * object_bytes; }
};

class KvService {
 public:
  KvService(Kernel* kernel, const KvOptions& options, uint64_t seed, bool through_ppc,
            std::string proc);
  // Adds the objects' files; returns their paths.
  static std::vector<std::string> AddFiles(PageCache* cache, const KvOptions& options,
                                           const std::string& directory);
  // In a fiber.  `bytes` of the report: read from the disk in the last pass.
  ServiceReport Run(const std::vector<std::string>& paths);

 private:
  std::vector<uint32_t> OrderOf(uint32_t pass) const;
  void Pass(Thread* thread, const std::vector<std::string>& paths, uint32_t pass);

  Kernel* const kernel_;
  const KvOptions options_;
  const uint64_t seed_;
  const bool through_ppc_;
  const std::string proc_;
};

}  // namespace ppc::sim

#endif  // PPC_SIM_KV_SERVICE_H_
