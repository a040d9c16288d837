// SPDX-License-Identifier: Apache-2.0
//
// How a load of a service ends, what is kept of it, what comes after it, and what is told of it,
// see service.h.
#include <malloc.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "policies/maio/base/tuning.h"
#include "policies/maio/record/template_writer.h"
#include "policies/maio/service.h"
#include "policies/maio/synth/mount_source.h"
#include "policies/maio/template/template_feedback.h"

namespace ppc::maio {

using Json = nlohmann::json;

namespace {

// A service that read nothing for so long before it was stopped had read what it needed; one that
// was stopped in the middle of its load would still have read the rest.
constexpr uint64_t kStoppedNs = 10'000'000'000;

}  // namespace

void Service::NotePhase(Phase phase) {
  const uint64_t now = run_.Now();
  const bool is_first = phases_.Note(phase, run_.start_ns, now);
  if (is_first && mode_ == Mode::kRecord) recording_->Mark(phase, now);
}

Json Service::BeginPhase(Phase phase) {
  NotePhase(phase);
  // What is compiled next needs memory, and nobody reads the model again.
  if ((phase == Phase::kCompile || phase == Phase::kGraphs) && follows()) following_->EndWeights();
  return Status();
}

Json Service::Ready() {
  NotePhase(Phase::kReady);
  const Mode before = mode_;
  const bool was_told = ready_ns_ != 0;  // what is read again and again is kept
  if (mode_ == Mode::kRecord || mode_ == Mode::kUse) EndLoad(/*is_over=*/true);
  if (mode_ == Mode::kServing && following_ != nullptr && !was_told) {
    Judge(/*is_ready=*/true);
    const bool did_not_fit = run_.config.at_ready == AtReady::kAuto && following_->constrained();
    evict_all_ = run_.config.bar && (run_.config.at_ready == AtReady::kAll || did_not_fit);
    following_->Pause();
  }
  ready_ns_ = run_.Now();
  mode_ = Mode::kServing;
  Json status = Status();
  status["mode"] = ModeName(before);  // what it has ended
  return status;
}

// A first start that has read what the headers list computes from it, perhaps; its recording goes
// on, since what else belongs into the template may come after the model.
void Service::EndFollowing(uint64_t now_ns) {
  if (!follow_end_.HasEnded(following_->Activity(), following_->read_bytes(), following_->IsAtEnd(),
                            now_ns)) {
    return;
  }
  StopFollowing();
}

void Service::StopFollowing() {
  following_->Rest();
  following_->Pause();
  has_followed_ = true;
}

Json Service::Stop() {
  const bool followed = follows();
  if (mode_ == Mode::kRecord) FinishRecording(kPartial);
  if (followed || (mode_ == Mode::kServing && following_ != nullptr)) Judge(/*is_ready=*/false);
  if (following_ != nullptr) following_->Pause();
  lookup_queue_.End();
  passes_.reset();
  experts_.reset();
  evict_all_ = run_.is_awaited && followed && run_.config.bar;
  if (evict_all_) following_->KeepPreexisting();
  run_.is_awaited = false;
  Json status = Status();
  mode_ = Mode::kStopped;
  is_stopped_ = true;
  GiveBack();
  return status;
}

// A model that does not fit is computed from when more of it is missed than a load had left; while
// it is read anew, than a load may miss.
void Service::NoteMissedAgain(const miss_io& event) {
  const bool is_miss = event.kind == PPC_MISS_READ || event.kind == PPC_MISS_FAULT;
  if (!is_miss || has_looked_for_experts_ || following_ == nullptr || !following_->constrained() ||
      !following_->HasReadAll())
    return;
  missed_again_ += std::max(event.size, run_.context->window_bytes);
  missing_.Note({event.pid, event.start_ns});
  const uint64_t model = following_->layout().bytes();
  if (missed_again_ <= (is_reload_ ? model : model / 20) + kSubstantialBytes) return;
  if (!missing_.IsShared()) FindExperts();
  ForgetMisses();
}

// Those of one process: each of several may need slices of experts.
void Service::FindExperts() {
  has_looked_for_experts_ = true;
  if (!run_.config.prefetch || run_.spec.workers > 1 || run_.spec.nodes > 1) return;
  auto pieces = std::make_shared<std::vector<Experts::Piece>>();
  const auto find = [context = run_.context, pieces,
                     files = Experts::FilesOf(following_->layout())] {
    MountSource source(context);
    *pieces = Experts::Find(&source, files);
  };
  background_(find, [this, pieces, alive = std::weak_ptr<bool>(alive_)] {
    if (alive.expired() || is_stopped_ || pieces->empty()) return;
    experts_ = std::make_unique<Experts>(&run_, std::move(*pieces));
    // A token goes through the layers in order, which looks like a pass, and needs little of each.
    passes_.reset();
    if (follows() && mode_ == Mode::kRecord) StopFollowing();
    if (mode_ == Mode::kUse) EndLoad(following_->IsAtEnd());
  });
}

// After a stop the tables go when the last drop is done.
void Service::GiveBack() {
  if (!is_stopped_ || evict_all_) return;
  if (following_ == nullptr && recording_ == nullptr) return;
  following_.reset();
  recording_.reset();
  malloc_trim(0);
}

void Service::FinishRecording(uint32_t flags) {
  recording_->Settle();
  // A model that was followed and not read (dummy weights) is not to be loaded the next time,
  // either.
  const bool is_unread = flags == kComplete && follows() && recording_->files() != 0;
  if (!recording_->HasSubstance() && !is_unread) {
    reason_ = "nothing recorded: no model data was read through the mount";
    return;
  }
  if (recording_->HasSubstance() && !recording_->HasNews()) return;
  reason_ = "its template is being stored";
  auto writer = std::make_shared<TemplateWriter>(recording_->Finish(flags, OwnBytes()));
  auto finish = [context = run_.context, name = id(), writer] {
    writer->Write([context](const std::string& path, uint64_t size, FileKind* kind) {
      return FingerprintOf(context, path, size, kind);
    });
    const std::string text = "maio: service " + name + ": " + writer->reason();
    context->log(context, writer->level(), text.c_str());
  };
  // The store gets it whether the service is still there or not.
  background_(finish, [this, writer, shared = shared_, spec = run_.spec,
                       alive = std::weak_ptr<bool>(alive_)] {
    if (writer->stored_bytes() != 0 && shared->IsFor(spec))
      shared->Push(spec, writer->TakeTemplate());
    if (alive.expired()) return;
    reason_ = writer->reason();
    if (recording_ != nullptr) recording_->TakeFinished(*writer);
  });
}

// What the start showed of its template decides what the next one follows.  Once a load.
void Service::Judge(bool is_ready) {
  if (std::exchange(is_judged_, true)) return;
  if (recording_ != nullptr || is_feedback_suppressed_) return;  // a new one is being stored
  if (run_.config.record == RecordMode::kNever || run_.spec.IsReplica()) return;
  // A later pass may need less, and of one that was taken over not all was seen.
  const bool has_ended = is_ready || run_.Now() > run_.last_event_ns + kStoppedNs;
  Repair repair;
  TemplateUse use =
      following_->UseOfTemplate(has_ended && !is_reload_ && !run_.spec.is_resumed, &repair);
  // Stopped before it read any model: a failed initialisation, not dummy weights.
  if (!is_ready && use.unread_bytes == use.model_bytes &&
      use.unlisted_bytes * 4 <= use.listed_bytes) {
    use.unread_bytes = 0;
    repair.unread.clear();
  }
  const Judgement judgement = maio::Judge(use);
  if (judgement.verdict == Verdict::kGood) {
    if (following_->has_new_model_files()) SayWhenDone(RequestRerecord);
    return;
  }
  if (shared_->IsFor(run_.spec)) shared_->MarkBad(run_.spec);
  // Parts of several nodes become one by rules of their own.
  const bool is_repaired =
      judgement.verdict == Verdict::kRepair && run_.spec.nodes == 1 && !shared_->IsFor(run_.spec);
  SayWhenDone([is_repaired, why = judgement.why, repair = std::move(repair)](
                  const ppc_context* context, const ServiceSpec& spec) {
    return is_repaired ? RepairTemplate(context, spec, why, repair)
                       : InvalidateTemplate(context, spec, why);
  });
}

// What work() says, in the background, becomes the reason.
void Service::SayWhenDone(Feedback work) {
  auto said = std::make_shared<std::string>();
  background_([context = run_.context, spec = run_.spec, work = std::move(work),
               said] { *said = work(context, spec); },
              [this, said, alive = std::weak_ptr<bool>(alive_)] {
                if (!alive.expired() && !said->empty()) reason_ = *said;
              });
}

// --------------------------------------------------------------------- status

Json Service::Status() const {
  Json json = {{"service_id", id()},
               {"mode", ModeName(mode_)},
               {"reason", reason_},
               {"treatment", treatment_},
               {"processes", run_.workers.processes()}};
  if (run_.is_awaited) json["awaited"] = true;
  for (auto [phase, ms] : phases_.all())
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
  if (passes_ != nullptr) passes_->Describe(&json);
  if (experts_ != nullptr) experts_->Describe(&json);
  return json;
}

void Service::Stats() const {
  const ppc_context* const context = run_.context;
  context->stat(context, "mode", static_cast<uint64_t>(mode_));
  if (mode_ == Mode::kRecord) context->stat(context, "recorded_bytes", recording_->bytes());
  if (following_ != nullptr) following_->Stats();
}

}  // namespace ppc::maio
