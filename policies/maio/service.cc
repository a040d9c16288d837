// SPDX-License-Identifier: Apache-2.0
//
// A service's states and how it passes from one to the next, see service.h.
#include "policies/maio/service.h"

#include <malloc.h>

#include <algorithm>
#include <functional>
#include <span>
#include <utility>

#include "policies/maio/base/tuning.h"
#include "policies/maio/follow/directories.h"

namespace ppc::maio {
namespace {

using Json = nlohmann::json;

}  // namespace

const char* ModeName(Mode mode) {
  switch (mode) {
    case Mode::kRecord:
      return "record";
    case Mode::kUse:
      return "use";
    case Mode::kStarting:
      return "starting";
    default:
      return "idle";
  }
}

Service::Service(const ppc_context* context, const Config& config, ServiceSpec spec, uint32_t slot,
                 SharedStore* shared, Background background)
    : run_(context, config, std::move(spec), slot),
      shared_(shared),
      background_(std::move(background)) {}

// ------------------------------------------------------------------- starting

Json Service::Start() {
  mode_ = Mode::kStarting;
  reason_ = "its template is being looked for";
  Prepare();
  return Status();
}

Json Service::Await() {
  run_.is_awaited = true;
  return Start();
}

bool Service::Join(const ServiceSpec& spec) {
  const bool is_on_its_way = mode_ == Mode::kUse || mode_ == Mode::kStarting || is_held_back_;
  if (!run_.is_awaited || !is_on_its_way || spec != run_.spec) return false;
  Joined();
  return true;
}

void Service::Joined() {
  run_.is_awaited = false;
  run_.start_ns = run_.Now();
  if (follows()) following_->Join();
}

void Service::Prepare() {
  auto result = std::make_shared<Preparation>();
  auto preparer = std::make_shared<Preparer>(run_.context, run_.config, run_.spec, run_.Memory(),
                                             run_.is_awaited || run_.spec.is_resumed);
  const auto prepare = [result, preparer, cookie = run_.cookie(), nonce = run_.NextNonce()] {
    preparer->Prepare();
    malloc_trim(0);  // what that took is back before the tables are made
    *result = preparer->Finish(cookie, nonce);
  };
  background_(prepare, [this, result, alive = std::weak_ptr<bool>(alive_)] {
    // It may have been stopped, or be ready, meanwhile.
    if (!alive.expired() && mode_ == Mode::kStarting) Begin(std::move(*result));
    *result = Preparation();
  });
}

void Service::Begin(Preparation p) {
  reason_ = std::move(p.reason);
  generation_ = p.generation;
  stale_files_ = p.stale_files;
  synthesized_files_ = p.synthesized_files;
  is_held_back_ = p.followed && !p.is_recorded && IsHeldBack();
  if (is_held_back_) {
    p.followed.reset();
    reason_ = "held back: this start runs natively, to be compared with";
  }
  mode_ = p.is_recorded ? Mode::kRecord : p.followed ? Mode::kUse : Mode::kIdle;
  treatment_ = is_held_back_ ? "native" : p.is_recorded ? "record" : p.followed ? "policy" : "none";
  if (p.is_recorded) {
    recording_ = std::make_unique<Recording>(&run_, p.found);
    if (is_early_lost_) recording_->Miss();
    recording_->Begins(p.followed.has_value(), p.is_warm);
    for (auto [phase, ms] : phases_) recording_->Mark(phase, run_.start_ns + ms * 1'000'000);
  }
  const uint64_t known_ns = p.found.created_ns;
  if (p.followed) {
    Follow(&p);
    if (!following_->reason().empty()) reason_ += "; " + following_->reason();
  }
  if (is_fetched_) reason_ += ", from the store";
  run_.Log(PPC_LOG_INFO, "maio: service " + id() + ": " + ModeName(mode_) + " (" + reason_ + ")");
  for (EarlyEvent& early : std::exchange(early_, {})) {
    early.event.path = early.path.empty() ? nullptr : early.path.c_str();
    Event(early.event);
  }
  // The template, the headers and what sorted them were most of what there is.
  p = Preparation();
  background_([] { malloc_trim(0); }, [] {});
  if (!is_fetched_ && !is_held_back_) fetch_newer_ = known_ns;
  if (later_ == nullptr) FetchNewer();
}

// A share of the starts that would follow a whole template; which of them, nobody chooses.
bool Service::IsHeldBack() const {
  if (run_.config.holdback == 0 || run_.spec.is_resumed || is_again_) return false;
  const std::string start = id() + " " + std::to_string(run_.start_ns);
  return std::hash<std::string>{}(start) % 100 < run_.config.holdback;
}

void Service::Follow(Preparation* p) {
  later_ = std::make_shared<Later>(std::move(p->followed->later));
  following_ = std::make_unique<Following>(&run_, *std::move(p->followed), p->copies);
  following_->OnSwap([this](uint32_t a, uint32_t b) {
    if (recording_ != nullptr) recording_->Swap(a, b);
  });
  LookUpLater(0);
  if (run_.spec.nodes == 1 || run_.spec.first_told) return;
  following_->OnUnknown(
      [this](const std::string& path, uint64_t page) { NoteUnknown(path, page); });
}

// Some at a time: the service loads those that are known, and others start meanwhile.
void Service::LookUpLater(size_t first) {
  const std::shared_ptr<const Later> later = later_;
  const auto rest = std::span(later->files).subspan(first);
  if (rest.empty()) {
    later_.reset();
    if (!later->directories.empty())
      background_([context = run_.context, later] { ReadDirectories(context, later->directories); },
                  [] {});
    FetchNewer();
    return;
  }
  const auto some = rest.first(std::min(rest.size(), kLookUpsNext));
  auto found = std::make_shared<std::vector<LookedUp>>();
  background_(
      [context = run_.context, later, some, found] { *found = LookUp(context, some); },
      [this, later, some, end = first + some.size(), found, alive = std::weak_ptr<bool>(alive_)] {
        if (alive.expired() || later_ != later || following_ == nullptr) return;
        found->resize(some.size());  // where that failed
        stale_files_ += following_->Learn(*found);
        LookUpLater(end);
      });
}

// --------------------------------------------------------------------- events

uint32_t Service::want() const {
  constexpr uint32_t kRecordWant = PPC_WANT_TRACE | PPC_WANT_MANAGED_RA | PPC_WANT_OPENCLOSE;
  constexpr uint32_t kUseWant = PPC_WANT_PROGRESS | PPC_WANT_MANAGED_RA | PPC_WANT_OPENCLOSE;
  switch (mode_) {
    case Mode::kRecord:
      return kRecordWant;
    case Mode::kStarting:
      // Whether it has a template is not known yet: the reader's first access is to be seen.
      return run_.spec.IsReplica() ? kUseWant : kRecordWant;
    case Mode::kUse:
      return kUseWant | (following_->looks_for_leftovers() ? PPC_WANT_EVICT : 0);
    default:
      return evict_all_ ? PPC_WANT_EVICT : 0;
  }
}

uint64_t Service::beacon_bytes() const {
  return mode_ == Mode::kUse ? following_->beacon_bytes() : 0;
}

bool Service::Holds(uint64_t file, uint64_t page, uint64_t pages) const {
  if (follows()) return following_->Holds(file, page, pages);
  return mode_ == Mode::kRecord && recording_->Knows(file);
}

void Service::Event(const miss_io& event) {
  if (run_.is_awaited) {
    // What the process that failed did last may be told late.
    if (event.time_ns < run_.start_ns) return;
    Joined();
  }
  if (mode_ == Mode::kUse) {  // nearly always
    run_.last_event_ns = event.time_ns;
    return following_->Event(event);
  }
  if (mode_ == Mode::kIdle) {
    const bool begins = ready_ns_ != 0 && following_ != nullptr && following_->BeginsAgain(event);
    if (!begins) return;
    agains_ = event.time_ns < ready_ns_ + kAgainSoonNs ? agains_ + 1 : 0;
    is_again_ = true;
    evict_all_ = false;
    (void)Start();
  }
  run_.last_event_ns = event.time_ns;
  if (mode_ == Mode::kStarting) {
    if (early_.size() < kMaxEarly) {
      early_.push_back({event, event.path != nullptr ? event.path : ""});
    } else {
      is_early_lost_ = true;
    }
    return;
  }
  if (mode_ == Mode::kRecord) recording_->Event(event);
  if (follows()) following_->Event(event);
}

void Service::Plan(const ppc_plan_request& request, IoList* out) {
  if (follows()) following_->Plan(request, out);
}

void Service::Evict(const Evictor::Held& held, bool is_contended, IoList* out) {
  if (evict_all_) {
    evict_all_ = following_->EvictAll(held, out);
    GiveBack();
  } else if (follows()) {
    following_->SetContended(is_contended);
    following_->Evict(held, out);
  }
}

bool Service::Done(const ppc_result& result) {
  if (following_ == nullptr || result.cookie >> 56 != run_.slot + 1) return false;
  if (result.kind == PPC_LOADED || follows() || evict_all_) following_->Done(result);
  return true;
}

void Service::Tick(uint64_t now_ns) {
  if (mode_ == Mode::kRecord && recording_->IsDue(now_ns)) FinishRecording(kComplete);
  if (follows()) following_->Tick(now_ns);
  if (is_again_ && mode_ == Mode::kUse && now_ns > run_.last_event_ns + kAgainEndNs) (void)Ready();
  if (++ticks_ % kTicksPerStats == 0) Stats();
  // Headers and plans leave holes between the tables, which stay.
  if (ticks_ % kTicksPerTrim == 0) malloc_trim(0);
}

// --------------------------------------------------------------------- status

Json Service::Status() const {
  Json json = {{"service_id", id()},
               {"mode", ModeName(mode_)},
               {"reason", reason_},
               {"treatment", treatment_},
               {"processes", run_.workers.processes()}};
  if (run_.is_awaited) json["awaited"] = true;
  if (!phases_.empty()) json["phases"] = Json::array();
  for (auto [phase, ms] : phases_)
    json["phases"].push_back({{"phase", PhaseName(phase)}, {"ms", ms}});
  if (run_.spec.nodes > 1) {
    json["node"] = run_.spec.node;
    json["nodes"] = run_.spec.nodes;
  }
  if (mode_ == Mode::kRecord) {
    json["recorded_bytes"] = recording_->bytes();
    json["files"] = recording_->files();
  }
  if (following_ == nullptr) return json;
  json["generation"] = generation_;
  json["stale_files"] = stale_files_;
  json["synthesized_files"] = synthesized_files_;
  following_->Describe(&json);
  return json;
}

void Service::Stats() const {
  const ppc_context* const context = run_.context;
  context->stat(context, "mode", static_cast<uint64_t>(mode_));
  if (mode_ == Mode::kRecord) context->stat(context, "recorded_bytes", recording_->bytes());
  if (following_ != nullptr) following_->Stats();
}

}  // namespace ppc::maio
