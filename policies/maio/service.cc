// SPDX-License-Identifier: Apache-2.0
//
// A service's states and how it passes from one to the next, see service.h.
#include "policies/maio/service.h"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <utility>

#include "policies/maio/base/tuning.h"
#include "policies/maio/directories.h"
#include "policies/maio/template/template.h"

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
  const std::string path = TemplatePath(run_.context->template_dir, run_.spec.service_id);
  // A look-up in the local store, here: the reader's first access is to be seen already.
  expects_recording_ = run_.config.record == RecordMode::kAlways || access(path.c_str(), R_OK) != 0;
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
    for (auto [phase, ms] : phases_) recording_->Mark(phase, run_.start_ns + ms * 1'000'000);
  }
  if (p.followed) {
    std::vector<std::string> directories = std::move(p.followed->directories);
    Follow(&p);
    if (!directories.empty())
      background_([context = run_.context,
                   list = std::move(directories)] { ReadDirectories(context, list); },
                  [] {});
    if (!following_->reason().empty()) reason_ += "; " + following_->reason();
  }
  if (is_fetched_) reason_ += ", from the store";
  run_.Log(PPC_LOG_INFO, "maio: service " + id() + ": " + ModeName(mode_) + " (" + reason_ + ")");
  for (EarlyEvent& early : std::exchange(early_, {})) {
    early.event.path = early.path.empty() ? nullptr : early.path.c_str();
    Event(early.event);
  }
  const uint64_t known_ns = p.found.created_ns;
  // The template, the headers and what sorted them were most of what there is.
  p = Preparation();
  background_([] { malloc_trim(0); }, [] {});
  if (!is_fetched_ && !is_held_back_) FetchShared(known_ns);
}

// A share of the starts that would follow a whole template; which of them, nobody chooses.
bool Service::IsHeldBack() const {
  if (run_.config.holdback == 0 || run_.spec.is_resumed || is_again_) return false;
  const std::string start = id() + " " + std::to_string(run_.start_ns);
  return std::hash<std::string>{}(start) % 100 < run_.config.holdback;
}

void Service::Follow(Preparation* p) {
  following_ = std::make_unique<Following>(&run_, *std::move(p->followed), p->copies);
  following_->OnSwap([this](uint32_t a, uint32_t b) {
    if (recording_ != nullptr) recording_->Swap(a, b);
  });
  if (run_.spec.nodes == 1 || run_.spec.first_told) return;
  following_->OnUnknown(
      [this](const std::string& path, uint64_t page) { NoteUnknown(path, page); });
}

// --------------------------------------------------------------------- events

uint32_t Service::want() const {
  constexpr uint32_t kRecordWant = PPC_WANT_TRACE | PPC_WANT_MANAGED_RA | PPC_WANT_OPENCLOSE;
  constexpr uint32_t kUseWant = PPC_WANT_PROGRESS | PPC_WANT_MANAGED_RA | PPC_WANT_OPENCLOSE;
  switch (mode_) {
    case Mode::kRecord:
      return kRecordWant;
    case Mode::kStarting:
      return expects_recording_ ? kRecordWant : kUseWant;
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

// ------------------------------------------------------------------------ end

void Service::NotePhase(Phase phase) {
  if (std::ranges::find(phases_, phase, &std::pair<Phase, uint64_t>::first) != phases_.end())
    return;
  const uint64_t now = run_.Now();
  phases_.emplace_back(phase, (now - std::min(run_.start_ns, now)) / 1'000'000);
  if (mode_ == Mode::kRecord) recording_->Mark(phase, now);
}

Json Service::Begins(Phase phase) {
  NotePhase(phase);
  // What is compiled next needs memory, and nobody reads the model again.
  if ((phase == Phase::kCompile || phase == Phase::kGraphs) && follows()) following_->EndWeights();
  return Status();
}

Json Service::Ready() {
  NotePhase(Phase::kReady);
  if (mode_ == Mode::kRecord) FinishRecording(kComplete);
  if (follows()) {
    following_->Rest();
    Stats();
    const bool is_over = run_.config.at_ready == AtReady::kAuto && following_->constrained() &&
                         agains_ < kAgainsToKeep;
    evict_all_ = run_.config.bar && (run_.config.at_ready == AtReady::kAll || is_over);
    Retire();
  }
  ready_ns_ = run_.Now();
  is_again_ = false;
  Json status = Status();
  mode_ = Mode::kIdle;
  return status;
}

Json Service::Stop() {
  if (mode_ == Mode::kRecord) FinishRecording(kPartial);
  if (follows()) Retire();
  evict_all_ = run_.is_awaited && follows() && run_.config.bar;
  if (evict_all_) following_->KeepFound();
  run_.is_awaited = false;
  Json status = Status();
  mode_ = Mode::kIdle;
  is_stopped_ = true;
  GiveBack();
  return status;
}

// Of one that has ended the tables go once nothing of it is to be dropped any more.
void Service::GiveBack() {
  if (!is_stopped_ || evict_all_) return;
  following_.reset();
  recording_.reset();
}

void Service::FinishRecording(uint32_t flags) {
  if (!recording_->HasSubstance()) {
    reason_ = "nothing recorded: no model data was read through the mount";
    return;
  }
  if (!recording_->HasNews()) return;
  reason_ = "its template is being stored";
  auto finishing = std::make_shared<Finishing>(recording_->Finish(flags));
  auto finish = [context = run_.context, name = id(), finishing] {
    finishing->Work();
    const std::string text = "maio: service " + name + ": " + finishing->reason();
    context->log(context, finishing->level(), text.c_str());
  };
  // The store gets it whether the service is still there or not.
  background_(finish, [this, finishing, shared = shared_, spec = run_.spec,
                       alive = std::weak_ptr<bool>(alive_)] {
    if (finishing->stored_bytes() != 0 && shared->IsFor(spec))
      shared->Push(spec, finishing->TakeTemplate());
    if (alive.expired()) return;
    reason_ = finishing->reason();
    if (recording_ != nullptr) recording_->TakeFinished(*finishing);
  });
}

// The template fitted badly: record again next time.
void Service::Retire() {
  following_->End();
  if (mode_ == Mode::kRecord || is_forgiven_) return;  // a new one is being stored
  if (run_.config.record == RecordMode::kNever) return;
  if (!following_->FittedBadly()) {
    if (following_->has_joined()) RecordNextTime();
    return;
  }
  if (shared_->IsFor(run_.spec)) shared_->MarkBad(run_.spec);
  SetAside();
}

void Service::SetAside() {
  auto said = std::make_shared<std::string>();
  auto work = [context = run_.context, name = id(), node = run_.spec.node,
               is_part = run_.spec.nodes > 1, said] {
    const std::string part = PartPath(context->template_dir, name, node);
    if (is_part) std::rename(part.c_str(), (part + ".stale").c_str());
    const std::string path = TemplatePath(context->template_dir, name);
    if (std::rename(path.c_str(), (path + ".stale").c_str()) != 0) return;
    *said = "the template fitted badly and was set aside; the next start records";
    const std::string text = "maio: service " + name + ": " + *said;
    context->log(context, PPC_LOG_WARNING, text.c_str());
  };
  SayWhenDone(work, said);
}

// Other model files have joined it: they are to be in the template, too.
void Service::RecordNextTime() {
  auto said = std::make_shared<std::string>();
  auto work = [context = run_.context, name = id(), said] {
    Template t;
    std::string error;
    if (Load(TemplatePath(context->template_dir, name), &t, &error) != 0) return;
    t.flags |= kRerecord;
    const bool is_stored = Store(context->template_dir, t, &error) == 0;
    *said = is_stored ? "other model files have joined; the next start is recorded, too" : error;
    const std::string text = "maio: service " + name + ": " + *said;
    context->log(context, is_stored ? PPC_LOG_INFO : PPC_LOG_ERROR, text.c_str());
  };
  SayWhenDone(work, said);
}

void Service::SayWhenDone(std::function<void()> work, const std::shared_ptr<std::string>& said) {
  background_(std::move(work), [this, said, alive = std::weak_ptr<bool>(alive_)] {
    if (!alive.expired() && !said->empty()) reason_ = *said;
  });
}

// --------------------------------------------------------------------- status

Json Service::Status() const {
  Json json = {{"service_id", id()},
               {"mode", ModeName(mode_)},
               {"reason", reason_},
               {"treatment", treatment_}};
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
    json["processes"] = run_.workers.processes();
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
