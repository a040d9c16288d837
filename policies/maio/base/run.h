// SPDX-License-Identifier: Apache-2.0
//
// One run of a service, as all its states know it: what it was started with,
// and whose processes are which worker.
#ifndef POLICIES_MAIO_BASE_RUN_H_
#define POLICIES_MAIO_BASE_RUN_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "policies/maio/base/config.h"
#include "policies/maio/base/worker_map.h"
#include "ppc.h"

namespace ppc::maio {

// Whose request it is, in a cookie beside the service's byte and the nonce; the evictor's have
// none.
inline constexpr uint64_t kPlannerTag = 1ull << 48;
inline constexpr uint64_t kSmallFilesTag = 1ull << 49;
inline constexpr uint64_t kExpertsTag = 1ull << 50;
inline constexpr uint64_t kPassesTag = 1ull << 51;
inline constexpr uint64_t kIdleModelsTag = 1ull << 52;

struct ServiceRun {
  // slot: small number, unique among the services of the mount.
  ServiceRun(const ppc_context* host, const Config& settings, ServiceSpec service, uint32_t number)
      : context(host),
        config(settings),
        spec(std::move(service)),
        slot(number),
        start_ns(host->now_ns(host)),
        workers(spec, host->nr_xpus) {}

  uint64_t Now() const { return context->now_ns(context); }
  ppc_memory Memory() const {
    ppc_memory memory = {};
    if (context->memory(context, spec.number, &memory) != 0) memory = {};
    return memory;
  }
  // With a limit or without; 0: not known.
  uint64_t GroupUsed() const {
    const size_t needed = offsetof(ppc_context, group_used) + sizeof(ppc_context::group_used);
    return context->size < needed ? 0 : context->group_used(context, spec.number);
  }
  // Loads may fill memory nearly up to the limit: the policy makes room.
  bool UseLimit(bool on) const {
    const size_t needed = offsetof(ppc_context, use_limit) + sizeof(ppc_context::use_limit);
    return context->size >= needed && context->use_limit(context, spec.number, on ? 1 : 0) == 0;
  }
  // A share of the starts that would follow a whole template; which of them, nobody chooses.
  bool IsHeldBack() const {
    if (config.holdback == 0 || spec.is_resumed) return false;
    const std::string start = spec.service_id + " " + std::to_string(start_ns);
    return std::hash<std::string>{}(start) % 100 < config.holdback;
  }
  // The upper byte of its requests' cookies.
  uint64_t cookie() const { return static_cast<uint64_t>(slot + 1) << 56; }
  // The nonce tells late results of the slot's previous service, or of a layout that was replaced,
  // from ours.
  uint64_t NextNonce() { return (((start_ns >> 20) + layouts++) & 0x7fff) << 32; }
  void Log(int level, const std::string& message) const {
    context->log(context, level, message.c_str());
  }

  const ppc_context* const context;
  const Config config;
  const ServiceSpec spec;
  const uint32_t slot;
  uint64_t start_ns;
  WorkerMap workers;
  uint64_t last_event_ns = 0;
  uint32_t layouts = 0;     // it has followed
  bool is_awaited = false;  // its process failed, and no other has come yet
};

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_BASE_RUN_H_
