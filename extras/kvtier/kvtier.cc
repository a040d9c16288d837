// SPDX-License-Identifier: Apache-2.0
//
// kvtier: the policy for directories of KV-cache objects.  Connects hooks to walks, table and
// cache, and decides nothing itself.  docs/kvtier.md describes it and its limits.
//
// Threads: as in ppc.h.
#include <algorithm>
#include <bit>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "extras/kvtier/clock_cache.h"
#include "extras/kvtier/config.h"
#include "extras/kvtier/object_table.h"
#include "extras/kvtier/prefetch_budget.h"
#include "extras/kvtier/walks.h"
#include "ppc.hpp"

namespace ppc::kvtier {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kRoomBytes = 16 << 20;  // freed at once when memory is short
constexpr uint64_t kBudgetPerAhead = 4;
constexpr uint64_t kMostBlocksAtOnce = 64;  // per event

class KvTier : public Policy {
 public:
  int Init() override {
    Result<Config> config = ParseConfig(context()->config);
    if (!config) {
      Log(PPC_LOG_ERROR, config.error().message);
      return -1;
    }
    config_ = *config;
    table_ = std::make_unique<ObjectTable>(config_.table);
    cache_ = std::make_unique<ClockCache>(table_.get(), config_.block);
    const auto interrupt = [this](uint32_t service, uint32_t group) {
      context()->interrupt_of(context(), service, group);
    };
    walks_ = std::make_unique<Walks>(
        table_.get(), cache_.get(), &budget_,
        Walks::Options{.block_bytes = config_.block, .interrupt = interrupt});
    // Native read-ahead stays on: a demand window would load more of an object than is read.
    return context()->want(context(), PPC_WANT_PROGRESS, config_.block);
  }

  prefetch_ios* Prefetch(const miss_io& miss) override {
    HandleEvent(miss);
    return nullptr;  // the runtime calls Plan() next
  }

  void Event(const miss_io& event) override {
    if (event.kind == PPC_PROGRESS || event.kind == PPC_ACCESS) HandleEvent(event);
  }

  prefetch_ios* Plan(const ppc_plan_request& request) override {
    list_.Clear();
    walks_->Plan(request.service, request.max_bytes,
                 std::min(config_.ahead, request.memory->threshold / kBudgetPerAhead),
                 context()->now_ns(context()), &list_);
    return list_.Prefetch();
  }

  evict_ios* Evict(const miss_io*) override {
    list_.Clear();
    cache_->Drop(BytesToDrop(), &list_);
    return list_.Evict();
  }

  void Done(const ppc_result& result) override {
    walks_->Done(result, context()->now_ns(context()));
  }

  void Tick(uint64_t now_ns) override {
    walks_->Tick(now_ns);
    for (const auto& [name, value] : Counters()) context()->stat(context(), name, value);
  }

  const char* Control(const char* text) override {
    const Json message = Json::parse(text, nullptr, false);
    const std::string op = message.is_object() ? message.value("op", "") : "";
    if (op == "service_start") {
      services_[message.value("service_id", "")] = message.value("service", 0u);
    } else if (op == "service_stop") {
      services_.erase(message.value("service_id", ""));
    } else if (op != "service_ready" && op != "status") {
      return nullptr;
    }
    Json reply = Json::object();
    for (const auto& [name, value] : Counters()) reply[name] = value;
    reply_ = reply.dump();
    return reply_.c_str();
  }

 private:
  // Takes events of all readers until a service was started, then only of services' readers.
  void HandleEvent(const miss_io& event) {
    if (event.service < 0 && !services_.empty()) return;
    Arrival arrival{.reader = {.pid = event.pid,
                               .tid = config_.reader == ReaderIs::kThread ? event.tid : 0,
                               .start_ns = event.start_ns},
                    .service = static_cast<uint32_t>(std::max(event.service, 0)),
                    .xpu = event.xpu,
                    .now_ns = event.time_ns,
                    .is_miss = event.kind == PPC_MISS_READ || event.kind == PPC_MISS_FAULT};
    const uint64_t end = std::min(event.offset + event.size, event.file_bytes);
    if (event.offset >= end) return;
    const uint64_t first = event.offset / config_.block;
    const uint64_t last = std::min((end - 1) / config_.block, first + kMostBlocksAtOnce - 1);
    for (uint64_t block = first; block <= last; block++) {
      const uint64_t begin = block * config_.block;
      arrival.key = KeyOf(event.file, block);
      if (arrival.key == 0) return;
      const uint64_t from = std::max(event.offset, begin) - begin;
      const uint64_t to = std::min(end - begin, config_.block);
      arrival.first_page = from / kPage;
      arrival.pages = (to + kPage - 1) / kPage - arrival.first_page;
      walks_->Arrive(arrival);
    }
  }

  // So that one chunk fits below the threshold.
  uint64_t BytesToDrop() const {
    uint64_t missing = 0;
    const auto look = [&](uint32_t service) {
      ppc_memory memory = {};
      if (context()->memory(context(), service, &memory) != 0) return;
      if (memory.used + kRoomBytes / 2 <= memory.threshold) return;
      const uint64_t need = memory.used + kRoomBytes - memory.threshold;
      missing = std::max(missing, std::min(need, memory.cache));
    };
    if (services_.empty()) look(0);
    for (const auto& [id, number] : services_) look(number);
    return missing;
  }

  std::vector<std::pair<const char*, uint64_t>> Counters() const {
    return {{"objects", table_->size()},
            {"table_bytes", table_->bytes()},
            {"displaced_objects", table_->displaced()},
            {"untracked_objects", walks_->untracked()},
            {"walks", walks_->size()},
            {"ahead_objects", walks_->deepest()},
            {"late_objects", walks_->late()},
            {"right_bytes", budget_.right_bytes()},
            {"wrong_bytes", budget_.wrong_bytes()},
            {"kept_bytes", cache_->kept_bytes()},
            {"dropped_bytes", cache_->dropped_bytes()}};
  }

  Config config_;
  std::unique_ptr<ObjectTable> table_;
  std::unique_ptr<ClockCache> cache_;
  PrefetchBudget budget_;
  std::unique_ptr<Walks> walks_;
  std::map<std::string, uint32_t> services_;  // number by ID
  ppc::IoList list_;
  std::string reply_;
};

}  // namespace
}  // namespace ppc::kvtier

PPC_POLICY(ppc::kvtier::KvTier)
