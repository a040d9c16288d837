// SPDX-License-Identifier: Apache-2.0
//
// What a user can set: the registration's configuration and the specification
// of a service.  Values; wrong types are errors, and unknown keys of a configuration.
#ifndef POLICIES_MAIO_BASE_CONFIG_H_
#define POLICIES_MAIO_BASE_CONFIG_H_

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "daemon/base/result.h"
#include "policies/maio/base/tuning.h"

namespace ppc::maio {

inline constexpr uint64_t kMiB = 1ull << 20;
inline constexpr uint64_t kGiB = 1ull << 30;

enum class RecordMode { kAuto, kAlways, kNever };
enum class AtReady { kAuto, kKeep, kAll };

inline constexpr uint32_t kMostRecoverS = 3600;

struct Config {
  uint64_t distance = 0;  // 0: from the budget, see BarDistance()
  bool prefetch = true;
  bool affinity = true;
  bool bar = true;
  bool wait_for_reader = false;  // before a model is loaded whose reader is not known, see CacheUse
  uint32_t max_pieces = kMaxPieces;  // of the layout; more are joined
  RecordMode record = RecordMode::kAuto;
  AtReady at_ready = AtReady::kAuto;
  uint32_t recover_s = 60;  // a start is waited for after a failure, 0: not
  uint32_t holdback = 0;    // percent of starts that run natively, to be compared with
  std::string store;        // shared by several nodes, see OpenStore(); "": the local one alone
  std::string store_key;    // file of the key of its templates, "": they carry none
};

// One running service.  XPU numbers index this machine's list.
struct ServiceSpec {
  std::string service_id;
  // Whose template it follows: its own, or that of the service which it is a replica of.  A replica
  // records nothing: what one of them has read the others do not miss.
  std::string template_id;
  uint32_t number = 0;   // who is charged, see struct ppc_io
  uint32_t workers = 0;  // of this node; 0: not told
  // Of a service on several nodes: which one this is.  Workers have numbers of their own on each;
  // in the template of the whole the first of this node is first_worker.
  uint32_t node = 0;
  uint32_t nodes = 1;
  uint32_t first_worker = 0;
  bool first_told = false;
  std::vector<int32_t> xpus;
  // Told of again after the runner died: the load may be under way.
  bool is_resumed = false;
  nlohmann::json params;

  bool IsReplica() const { return template_id != service_id; }
  bool operator==(const ServiceSpec&) const = default;
};

// EINVAL: one line that names the option, what it must be and what it is.
Result<Config> ParseConfig(const std::string& text);
Result<ServiceSpec> ParseService(const nlohmann::json& message);
// Seconds, of a "service_failed" message; usual: where it says none.
Result<uint32_t> ParseWait(const nlohmann::json& message, uint32_t usual);

// Distance kept behind each group's reader: the configured one, else 1 GiB; at most an eighth of
// the budget for all of them (one alone: a sixteenth), never below 1 MiB.
uint64_t BarDistance(const Config& config, uint64_t budget, size_t groups);
// Beacon distance that keeps the position known to an eighth of the distance.  At most 1 MiB:
// readers that take slices of tensors must meet some in every slice.
uint64_t BeaconBytes(uint64_t distance);

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_BASE_CONFIG_H_
