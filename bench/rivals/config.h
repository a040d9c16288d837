// SPDX-License-Identifier: Apache-2.0
// What ppc-rival was asked to do.
// Threads: a plain value.
#ifndef PPC_BENCH_RIVALS_CONFIG_H_
#define PPC_BENCH_RIVALS_CONFIG_H_

#include <set>
#include <string>

#include "bench/rivals/direct.h"
#include "bench/rivals/prefetch.h"
#include "daemon/base/result.h"
#include "tools/model/common/options.h"

namespace ppc::bench {

enum class RivalKind { kWillNeed, kPrefetch, kWindow, kDirect };

struct RivalConfig {
  RivalKind kind = RivalKind::kWillNeed;
  std::string dir;
  PrefetchConfig prefetch;
  DirectConfig direct;
  double delay_s = 0;     // of the kinds beside a loader
  double init_s = 0;      // of the kind that is a loader
  bool is_early = false;  // read from exec on, not from the end of init
};

Result<RivalConfig> ParseRivalConfig(const Options& options);

// Names for Options::Parse.
const std::set<std::string>& RivalOptionNames();
const std::set<std::string>& RivalFlagNames();

}  // namespace ppc::bench

#endif  // PPC_BENCH_RIVALS_CONFIG_H_
