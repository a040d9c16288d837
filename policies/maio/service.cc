// SPDX-License-Identifier: Apache-2.0
//
// A service's states and how it passes from one to the next, see service.h.
#include "policies/maio/service.h"

#include <malloc.h>

#include <algorithm>
#include <span>
#include <utility>

#include "policies/maio/base/tuning.h"
#include "policies/maio/record/template_writer.h"
#include "policies/maio/template/template_feedback.h"

namespace ppc::maio {

using Json = nlohmann::json;

const char* ModeName(Mode mode) {
  switch (mode) {
    case Mode::kRecord:
      return "record";
    case Mode::kUse:
      return "use";
    case Mode::kServing:
      return "serving";
    case Mode::kStarting:
      return "starting";
    case Mode::kNative:
      return "native";
    default:
      return "stopped";
  }
}

Service::Service(const ppc_context* context, const Config& config, ServiceSpec spec, uint32_t slot,
                 SharedStore* shared, Background background)
    : run_(context, config, std::move(spec), slot),
      shared_(shared),
      background_(std::move(background)),
      lookup_queue_(
          context, background_,
          [this](std::span<const FileLookup> found) {
            if (following_ == nullptr) return false;
            stale_files_ += following_->Learn(found);
            return true;
          },
          [this] { FetchNewer(); }),
      idle_models_(&run_) {}

// ------------------------------------------------------------------- starting

Json Service::Start() {
  mode_ = Mode::kStarting;
  reason_ = "its template is being looked for";
  Prepare();
  return Status();
}

Json Service::Serve() {
  ready_ns_ = run_.Now();
  mode_ = Mode::kServing;
  reason_ = "it was ready before this runner was started";
  return Status();
}

Json Service::Await() {
  run_.is_awaited = true;
  return Start();
}

bool Service::Join(const ServiceSpec& spec) {
  if (!run_.is_awaited || !(loads() || is_held_back_) || spec != run_.spec) return false;
  Joined();
  return true;
}

void Service::Joined() {
  run_.is_awaited = false;
  run_.start_ns = run_.Now();
}

void Service::Prepare() {
  auto result = std::make_shared<Preparation>();
  auto preparer = MakePreparer();
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
  is_held_back_ = p.followed && !p.is_recorded && !is_reload_ && run_.IsHeldBack();
  if (is_held_back_) {
    p.followed.reset();
    reason_ = "held back: this start runs natively, to be compared with";
  }
  mode_ = p.is_recorded ? Mode::kRecord : p.followed ? Mode::kUse : Mode::kNative;
  load_end_ = follow_end_ = LoadEnd();
  has_followed_ = false;
  treatment_ = is_held_back_ ? "native" : p.is_recorded ? "record" : p.followed ? "policy" : "none";
  if (p.is_recorded) {
    recording_ = std::make_unique<Recording>(&run_, p.found);
    recording_->SetStartContext(
        {early_.has_lost(), p.followed.has_value(), p.is_warm, std::move(p.kinds)});
    for (auto [phase, ms] : phases_.all()) recording_->Mark(phase, run_.start_ns + ms * 1'000'000);
  } else {
    recording_.reset();  // of the load before
  }
  const uint64_t known_ns = p.found.created_ns;
  if (p.followed) {
    Follow(&p);
  }
  if (is_fetched_) reason_ += ", from the store";
  run_.Log(PPC_LOG_INFO, "maio: service " + id() + ": " + ModeName(mode_) + " (" + reason_ + ")");
  early_.Replay([this](const miss_io& event) { Event(event); });
  // The template, the headers and what sorted them were most of what there is.
  p = Preparation();
  background_([] { malloc_trim(0); }, [] {});
  if (!is_fetched_ && !is_held_back_) fetch_newer_ = known_ns;
  if (lookup_queue_.has_ended()) FetchNewer();
}

// Where memory is short what is behind the readers would be loaded a second time; whose memory it
// is shows once one of them is seen.
bool Service::MayStartOver() {
  if (is_reload_) return true;
  if (run_.last_event_ns == 0) return false;
  if (following_->Fits(run_.Memory())) return true;
  following_->Pause();
  following_.reset();
  lookup_queue_.End();
  recording_.reset();  // of half a load
  mode_ = Mode::kNative;
  reason_ =
      "left to the kernel until its next start: its runner ended during the load, and memory is "
      "short";
  run_.Log(PPC_LOG_INFO, "maio: service " + id() + ": " + reason_);
  return false;
}

void Service::Follow(Preparation* p) {
  DeferredFiles deferred = std::move(p->followed->deferred);
  is_judged_ = false;
  has_looked_for_experts_ = false;
  ForgetMisses();
  following_ = std::make_unique<Following>(&run_, *std::move(p->followed));
  following_->OnSwap([this](uint32_t a, uint32_t b) {
    if (recording_ != nullptr) recording_->Swap(a, b);
  });
  lookup_queue_.Begin(std::move(deferred));
}

void Service::FetchNewer() {
  if (fetch_newer_) FetchShared(*std::exchange(fetch_newer_, std::nullopt));
}

void Service::FetchShared(uint64_t known_ns) {
  if (!shared_->IsFor(run_.spec)) return;
  shared_->Fetch(run_.spec, known_ns, [this, alive = std::weak_ptr<bool>(alive_)](bool changed) {
    if (changed && !alive.expired()) Fetched();
  });
}

// Used at once if nothing was read yet; else the next start uses it.
void Service::Fetched() {
  if (run_.last_event_ns != 0 || (mode_ != Mode::kRecord && mode_ != Mode::kUse)) return;
  if (following_ != nullptr) following_->Pause();
  following_.reset();
  recording_.reset();
  mode_ = Mode::kStarting;
  is_fetched_ = true;
  Prepare();
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
      return kUseWant;
    default:
      if (passes_ != nullptr && passes_->is_on()) return PPC_WANT_PROGRESS | PPC_WANT_EVICT;
      if (has_experts() && experts_->IsOn()) return PPC_WANT_PROGRESS;
      if (evict_all_) return PPC_WANT_EVICT;
      return mode_ == Mode::kServing && idle_models_.WantsHits() ? PPC_WANT_PROGRESS : 0;
  }
}

uint64_t Service::beacon_bytes() const {
  if (passes_ != nullptr && passes_->is_on()) return kMiB;
  if (has_experts() && experts_->IsOn()) return kMiB;
  if (mode_ == Mode::kUse) return following_->beacon_bytes();
  return idle_models_.WantsHits() ? kMiB : 0;
}

bool Service::Holds(uint64_t file, uint64_t page, uint64_t pages) const {
  // It may compute from its mappings; once it has said ready it does not.
  const bool computes = mode_ == Mode::kServing && (ready_ns_ == 0 || IsSeenToCompute());
  if (computes && following_ != nullptr) return following_->Knows(file);
  if (computes) return recording_ != nullptr && recording_->Knows(file);
  if (follows()) return following_->Holds(file, page, pages);
  return mode_ == Mode::kRecord && recording_->Knows(file);
}

void Service::Event(const miss_io& event) {
  NoteMissedAgain(event);
  idle_models_.Note(event);
  if (run_.is_awaited) {
    // What the process that failed did last may be told late.
    if (event.time_ns < run_.start_ns) return;
    Joined();
  }
  if (mode_ == Mode::kUse) {  // nearly always
    run_.last_event_ns = event.time_ns;
    return following_->Event(event);
  }
  if (mode_ == Mode::kServing) {
    if (passes_ != nullptr && !evict_all_) passes_->Event(event);
    Reload(event);
  }
  if (!loads()) return;
  run_.last_event_ns = event.time_ns;
  if (mode_ == Mode::kStarting) return early_.Put(event);
  if (mode_ == Mode::kRecord) recording_->Event(event);
  if (follows()) following_->Event(event);
}

// What a serving service misses may be a load again.
void Service::Reload(const miss_io& event) {
  if (event.kind != PPC_MISS_READ && event.kind != PPC_MISS_FAULT) return;
  if (IsSeenToCompute()) return;
  // A service that computes from its mappings misses all the time where memory is short; it would
  // read more if that were taken for a load.
  if (event.time_ns >= served_miss_ns_ + kQuietNs) reload_until_ns_ = event.time_ns + kReloadNs;
  served_miss_ns_ = std::max(served_miss_ns_, event.time_ns);
  const bool was_recorded = recording_ != nullptr && ready_ns_ == 0;
  if (was_recorded && resumes_ < kMostResumes && !recording_->IsEndless() &&
      recording_->IsNews(event)) {
    resumes_++;
    mode_ = Mode::kRecord;
  } else if (following_ != nullptr) {
    const bool has_read_all = ready_ns_ != 0 || following_->HasReadAll();
    if (has_read_all && event.time_ns > reload_until_ns_) return;
    if (!following_->IsReload(event, /*may_be_replaced=*/ready_ns_ == 0)) return;
    evict_all_ = false;
    // After ready all has been read, and dropped perhaps.  Before, its readers are where they were.
    if (ready_ns_ != 0) {
      following_->Pause();
      is_reload_ = true;
      (void)Start();
      return;
    }
    is_reload_ = has_read_all;
    mode_ = Mode::kUse;
  } else {
    return;
  }
  load_end_ = follow_end_ = LoadEnd();
  has_followed_ = false;
  passes_.reset();
  if (following_ != nullptr) following_->GoOn();
}

// One process that reads all of it: with several, each has a place of its own.
void Service::WatchPasses() {
  const uint32_t needed = PPC_CAN_UNMAP | PPC_CAN_PROGRESS;
  const bool may_pass = run_.config.prefetch && run_.config.bar &&
                        (run_.context->caps & needed) == needed &&
                        (run_.context->caps & PPC_IS_SAMPLED) == 0;
  if (!may_pass || experts_ != nullptr || following_ == nullptr || !following_->has_model()) return;
  if (run_.spec.workers > 1 || run_.spec.nodes > 1) return;
  passes_ = std::make_unique<Passes>(&run_, following_->layout());
}

void Service::Plan(const ppc_plan_request& request, IoList* out) {
  if (passes_ != nullptr) passes_->Plan(request, out);
  if (follows() && MayGoOn()) following_->Plan(request, out);
}

void Service::Evict(const Evictor::Held& held, bool is_contended, IoList* out) {
  if (passes_ != nullptr) passes_->Evict(held, out);
  if (evict_all_) {
    // A process that still maps the model may compute from it, unless it says that it has loaded.
    const bool may_unmap = is_stopped_ || (run_.config.at_ready == AtReady::kAll && ready_ns_ != 0);
    evict_all_ = following_->EvictAll(held, may_unmap, out);
    GiveBack();
  } else if (!is_contended && EvictIdle(held, out)) {
    return;
  } else if (follows() && (is_contended || !IsAtEnd()) && MayGoOn()) {
    // At the end of the load nothing of it needs room any more, and readers may compute from what
    // they have mapped.
    following_->SetContended(is_contended);
    following_->Evict(held, out);
  }
}

// The first pass over what is listed makes room for itself.
bool Service::EvictIdle(const Evictor::Held& held, IoList* out) {
  if (!idle_models_.MayHaveIdle() || is_stopped_ || IsSeenToCompute()) return false;
  if (follows() && following_->constrained() && !is_reload_) return false;
  return idle_models_.Evict(held, follows() ? following_->NextLoad() : 0, out);
}

bool Service::Done(const ppc_result& result) {
  if (result.cookie >> 56 != run_.slot + 1) return false;
  if (idle_models_.Owns(result.cookie)) {
    idle_models_.Done(result);
    return true;
  }
  if (following_ == nullptr) return false;
  if (passes_ != nullptr && passes_->Owns(result.cookie)) {
    passes_->Done(result);
    return true;
  }
  if (experts_ != nullptr && experts_->Owns(result.cookie)) return true;
  if (result.kind == PPC_LOADED || follows() || evict_all_) following_->Done(result);
  return true;
}

void Service::Tick(uint64_t now_ns) {
  if (mode_ != Mode::kRecord && mode_ != Mode::kUse) return;
  if (follows()) following_->Tick(now_ns);
  if (mode_ == Mode::kRecord && follows() && !run_.is_awaited) EndFollowing(now_ns);
  if (HasLoadEnded(now_ns)) EndLoad(mode_ == Mode::kUse && following_->IsAtEnd());
}

// Asked more often than the ticks at which the end is looked for.
bool Service::IsAtEnd() const {
  const LoadEnd& end = mode_ == Mode::kRecord ? follow_end_ : load_end_;
  return end.is_at_end() || following_->IsAtEnd();
}

bool Service::HasLoadEnded(uint64_t now_ns) {
  if (run_.is_awaited) return false;
  if (mode_ == Mode::kRecord && recording_->IsDue(now_ns)) return true;
  uint64_t activity = 0;
  uint64_t news_ns = 0;
  uint64_t read_bytes = 0;
  bool is_at_end = false;
  if (following_ != nullptr) {
    activity = mode_ == Mode::kRecord ? following_->loaded_bytes() : following_->Activity();
    read_bytes = following_->read_bytes();
    // A recording takes in what comes after the model.
    is_at_end = mode_ == Mode::kUse && following_->IsAtEnd();
  }
  if (mode_ == Mode::kRecord) {
    news_ns = recording_->news_ns(now_ns);
    read_bytes = std::max(read_bytes, recording_->weight_bytes());
  }
  // Of packages alone there is no model that could have been read.
  const bool rests = run_.last_event_ns != 0 && now_ns > run_.last_event_ns + kIdleRecordNs;
  if (mode_ == Mode::kUse && !following_->has_model() && rests) return true;
  return load_end_.HasEnded(activity, read_bytes, is_at_end, now_ns, news_ns);
}

void Service::EndLoad(bool is_over) {
  if (mode_ == Mode::kRecord) FinishRecording(kComplete);
  if (follows()) {
    following_->Rest();
    following_->Pause();
    // A reader that only pauses will read what it has not read yet.
    if (is_over) Judge(/*is_ready=*/true);
    evict_all_ =
        is_over && ready_ns_ == 0 && run_.config.bar && run_.config.at_ready == AtReady::kAll;
  }
  lookup_queue_.End();
  is_reload_ = false;
  ForgetMisses();
  served_miss_ns_ = run_.last_event_ns;
  mode_ = Mode::kServing;
  WatchPasses();
}

}  // namespace ppc::maio
