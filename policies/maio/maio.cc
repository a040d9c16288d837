// SPDX-License-Identifier: Apache-2.0
//
// MAIO, the policy for model loading (paper, section 4): hooks to services.
// Nothing is decided here.
//
// Control messages: {"op": "service_start", "service_id": ..., "service": n,
// "workers": n, "xpus": [...], "params": {...}}, {"op": "service_ready", ...},
// {"op": "service_phase", ..., "phase": "weights"}, {"op": "service_failed", ..., "wait_s": n},
// {"op": "service_stop", ...}, {"op": "status"}.
#include <algorithm>
#include <cerrno>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "policies/maio/base/config.h"
#include "policies/maio/follow/native_files.h"
#include "policies/maio/service.h"
#include "ppc.hpp"

namespace ppc::maio {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxServices = 255;  // of one mount, serving or not: cookies have 8 bits for it

class Maio : public Policy {
 public:
  int Init() override {
    Result<Config> config = ParseConfig(context()->config);
    if (!config) {
      Log(PPC_LOG_ERROR, config.error().message);
      return -1;
    }
    config_ = std::move(*config);
    std::string error;
    shared_ = std::make_unique<SharedStore>(
        context(), [this](std::function<void()> work, std::function<void()> done) {
          return BackgroundRemote(std::move(work), [this, done = std::move(done)] {
            done();
            UpdateWant();
          });
        });
    if (!shared_->Open(config_, &error)) {
      Log(PPC_LOG_ERROR, "maio: " + error);
      return -1;
    }
    left_ = std::make_unique<NativeFiles>(context());
    return context()->want(context(), 0, 0);
  }

  void Exit() override {
    // Not Stop(): what is recorded of a load that goes on without us is no template.
    services_.clear();
    by_number_.clear();
  }

  prefetch_ios* Prefetch(const miss_io& miss) override {
    Route(miss);
    Service* const its =
        miss.service < 0 ? nullptr : ServiceOf(static_cast<uint32_t>(miss.service));
    if (its == nullptr || !its->has_experts()) return nullptr;  // Plan() is asked right after
    list_.Clear();
    its->Prefetch(miss, &list_);
    return list_.Prefetch();
  }

  void Event(const miss_io& event) override { Route(event); }

  prefetch_ios* Plan(const ppc_plan_request& request) override {
    list_.Clear();
    Service* const its = ServiceOf(request.service);
    if (its != nullptr) Watch(its, [&] { its->Plan(request, &list_); });
    return list_.Prefetch();
  }

  evict_ios* Evict(const miss_io*) override {
    list_.Clear();
    for (auto& service : services_) {
      auto held = [&](uint64_t file, uint64_t page, uint64_t pages) {
        for (auto& other : services_) {
          if (other != service && other->Holds(file, page, pages)) return true;
        }
        return false;
      };
      const bool is_contended = std::ranges::any_of(services_, [&](const auto& other) {
        return other != service && (other->IsLoading() || other->mode() == Mode::kRecord);
      });
      const size_t before = list_.size();
      Watch(service.get(), [&] { service->Evict(held, is_contended, &list_); });
      for (size_t i = before; i < list_.size(); i++) list_.ios()[i].service = service->number();
    }
    return list_.Evict();
  }

  void Done(const ppc_result& result) override {
    for (auto& service : services_) {
      if (service->Done(result)) return;
    }
  }

  void Tick(uint64_t now_ns) override {
    for (auto& service : services_) service->Tick(now_ns);
    UpdateWant();  // a load may have ended
    if (++ticks_ % kTicksPerStats == 0) WriteStats();
  }

  const char* Control(const char* text) override {
    Json message = Json::parse(text, nullptr, false);
    if (!message.is_object() || !message.contains("op") || !message["op"].is_string()) {
      return Reply({{"error", "maio: a message is a JSON object with \"op\""}});
    }
    std::string op = message["op"].get<std::string>();
    if (op == "service_start") return Reply(StartService(message));
    if (op == "service_phase") return Reply(PhaseOf(message));
    if (op == "service_failed") return Reply(AwaitService(message));
    if (op == "service_ready" || op == "service_stop") return Reply(EndService(message, op));
    if (op == "status") return Reply(Status());
    return nullptr;
  }

 private:
  // To the service of the process; a stranger's reads change nothing.
  void Route(const miss_io& event) {
    if (event.service < 0) return;
    Service* const its = ServiceOf(static_cast<uint32_t>(event.service));
    if (its == nullptr) return LeaveToKernel(event);
    const Mode before = its->mode();
    its->Event(event);
    if (before == Mode::kUse && its->mode() == before) return;  // nearly always
    if (its->want() != its->told_want()) UpdateWant();
    if ((its->told_want() & PPC_WANT_MANAGED_RA) == 0) LeaveToKernel(event);
  }

  // A service that does not load any more wants the kernel's read-ahead at once.
  template <typename Call>
  void Watch(const Service* service, Call call) {
    call();
    if (service->want() != service->told_want()) UpdateWant();
  }

  // A miss of a service that does not load.  While others do, read-ahead is off for the whole
  // directory: the kernel has it back for a file that none of them knows.
  void LeaveToKernel(const miss_io& event) {
    const bool is_miss = event.kind == PPC_MISS_READ || event.kind == PPC_MISS_FAULT;
    if (!is_miss || (want_ & PPC_WANT_MANAGED_RA) == 0) return;
    if (event.file_bytes <= context()->window_bytes) return;
    const auto needs = [&](const auto& other) { return other->LoadsFrom(event.file); };
    if (std::ranges::none_of(services_, needs)) left_->Leave(event.file);
  }

  // One that is idle may begin again.
  Service* ServiceOf(uint32_t number) const {
    return number < by_number_.size() ? by_number_[number] : nullptr;
  }

  // Of two with one number the later: the other has ended.
  void Number() {
    by_number_.clear();
    for (auto& service : services_) {
      if (service->number() >= by_number_.size()) by_number_.resize(service->number() + 1);
      by_number_[service->number()] = service.get();
    }
  }

  Json StartService(const Json& message) {
    Result<ServiceSpec> spec = ParseService(message);
    if (!spec) return {{"error", spec.error().message}};
    const auto says = [&message](const char* key) {
      const auto it = message.find(key);
      return it != message.end() && *it == true;
    };
    // Its next start has not begun: no load goes on.
    if (says("failed")) spec->is_resumed = false;
    for (auto& known : services_) {
      if (known->id() != spec->service_id || !known->Join(*spec)) continue;
      UpdateWant();
      return known->Status();
    }
    Result<Service*> service = Put(*std::move(spec));
    if (!service) return {{"error", service.error().message}};
    // One that was ready serves: nothing of it is loaded or dropped.
    Json reply = says("ready")    ? (*service)->Serve()
                 : says("failed") ? (*service)->Await()
                                  : (*service)->Start();
    UpdateWant();
    return reply;
  }

  Result<Service*> Put(ServiceSpec spec) {
    // The same service again: a retried start.
    std::erase_if(services_, [&](auto& s) {
      if (s->id() != spec.service_id) return false;
      s->Stop();
      return true;
    });
    std::erase_if(services_, [](auto& s) { return s->IsOver(); });
    Number();
    std::vector<bool> is_taken(kMaxServices + 1);
    for (auto& s : services_) is_taken[s->slot()] = true;
    const auto slot = static_cast<uint32_t>(std::ranges::find(is_taken, false) - is_taken.begin());
    if (slot >= kMaxServices && DropServing()) return Put(std::move(spec));
    if (slot >= kMaxServices) return Error{ENOSPC, "maio: too many services on this mount"};
    services_.push_back(std::make_unique<Service>(
        context(), config_, std::move(spec), slot, shared_.get(),
        [this](auto work, auto done) { InBackground(std::move(work), std::move(done)); }));
    Number();
    return services_.back().get();
  }

  // Makes room for another by forgetting the one that has served longest.
  bool DropServing() {
    const auto oldest = std::ranges::min_element(services_, {}, [](const auto& service) {
      return std::pair(service->loads(), service->start_ns());
    });
    if (oldest == services_.end() || (*oldest)->loads()) return false;
    (void)(*oldest)->Stop();
    services_.erase(oldest);
    Number();
    return true;
  }

  // Its process failed.  "wait_s" of the answer: how long whoever told it is to wait for the next
  // start until it says service_stop; 0: it may do so at once.
  Json AwaitService(const Json& message) {
    const Result<uint32_t> told = ParseWait(message, config_.recover_s);
    if (!told) return {{"error", told.error().message}};
    const uint32_t wait_s = *told;
    const auto it = message.find("service_id");
    const std::string id =
        it != message.end() && it->is_string() ? it->get<std::string>() : std::string();
    const auto known =
        std::ranges::find_if(services_, [&](const auto& service) { return service->id() == id; });
    if (known == services_.end()) return NotStarted(id);
    if (wait_s == 0) return {{"wait_s", 0}};
    Json reply = {{"wait_s", wait_s}};
    if ((*known)->is_awaited()) return reply;  // told twice
    (*known)->SuppressFeedback();
    ServiceSpec spec = (*known)->spec();
    spec.is_resumed = false;
    Result<Service*> service = Put(std::move(spec));
    if (!service) return {{"error", service.error().message}};
    reply.update((*service)->Await());
    UpdateWant();
    return reply;
  }

  static Json NotStarted(const std::string& id) {
    return {{"error", "maio: no service " + id + " was started on this mount"}};
  }

  Json EndService(const Json& message, const std::string& op) {
    auto it = message.find("service_id");
    std::string id = it != message.end() && it->is_string() ? it->get<std::string>() : "";
    for (auto& service : services_) {
      if (service->id() != id) continue;
      WriteStats();
      Json reply = op == "service_ready" ? service->Ready() : service->Stop();
      UpdateWant();
      WriteStats();
      return reply;
    }
    return NotStarted(id);
  }

  Json PhaseOf(const Json& message) {
    const auto text = [&](const char* key) {
      auto it = message.find(key);
      return it != message.end() && it->is_string() ? it->get<std::string>() : std::string();
    };
    const std::optional<Phase> phase = ParsePhase(text("phase"));
    if (!phase) return {{"error", "maio: a phase is init, weights, compile, graphs or ready"}};
    if (*phase == Phase::kReady) return EndService(message, "service_ready");
    for (auto& service : services_) {
      if (service->id() == text("service_id")) return service->BeginPhase(*phase);
    }
    return NotStarted(text("service_id"));
  }

  // Where the host has no thread for it, here and now.
  void InBackground(const std::function<void()>& work, std::function<void()> done) {
    auto after = [this, done = std::move(done)] {
      done();
      UpdateWant();
    };
    const int rc = Background(work, after);
    if (rc == 0 || rc == -ESHUTDOWN) return;  // it ends: nobody needs that any more
    work();
    after();
  }

  void UpdateWant() {
    uint32_t want = 0;
    uint64_t beacon = 0;
    for (auto& service : services_) {
      want |= service->TellWant();
      const uint64_t bytes = service->beacon_bytes();
      if (bytes != 0) beacon = beacon == 0 ? bytes : std::min(beacon, bytes);
    }
    if (want == want_ && beacon == beacon_) return;
    left_->TakeAll();  // another service may load from them
    int rc = context()->want(context(), want, beacon);
    if (rc != 0) Log(PPC_LOG_ERROR, "maio: cannot change events: error " + std::to_string(-rc));
    want_ = want;
    beacon_ = beacon;
  }

  // Counters have one set of names: they are those of the service that loads, of several the one
  // that was started last; of services that do not load they are written once.
  void WriteStats() {
    const auto newest = std::ranges::max_element(services_, {}, [](const auto& service) {
      return std::pair(service->loads(), service->start_ns());
    });
    if (newest == services_.end()) return;
    const std::pair<const Service*, Mode> told = {newest->get(), (*newest)->mode()};
    if (!(*newest)->loads() && told == told_stats_) return;
    told_stats_ = told;
    (*newest)->Stats();
  }

  Json Status() const {
    Json list = Json::array();
    for (auto& service : services_) list.push_back(service->Status());
    return {{"services", std::move(list)}};
  }

  const char* Reply(const Json& json) {
    reply_ = json.dump(-1, ' ', false, Json::error_handler_t::replace);
    return reply_.c_str();
  }

  Config config_;
  std::unique_ptr<SharedStore> shared_;
  std::vector<std::unique_ptr<Service>> services_;
  std::vector<Service*> by_number_;  // as the runtime's; nullptr: none
  std::pair<const Service*, Mode> told_stats_ = {nullptr, Mode::kNative};
  uint32_t ticks_ = 0;
  uint32_t want_ = 0;
  uint64_t beacon_ = 0;
  std::unique_ptr<NativeFiles> left_;  // of services that do not load
  IoList list_;
  std::string reply_;
};

}  // namespace
}  // namespace ppc::maio

PPC_POLICY(ppc::maio::Maio)
