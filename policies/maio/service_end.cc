// SPDX-License-Identifier: Apache-2.0
//
// How a service's start-up ends: its phases, ready, stopped; what is stored of it, and what of its
// template is set aside.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <utility>

#include "policies/maio/base/tuning.h"
#include "policies/maio/service.h"
#include "policies/maio/template/template.h"

namespace ppc::maio {

using Json = nlohmann::json;

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
    finishing->Work([context](const std::string& path, uint64_t size, FileKind* kind) {
      return FingerprintOf(context, path, size, kind);
    });
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
  later_.reset();
  if (mode_ == Mode::kRecord || is_forgiven_) return;  // a new one is being stored
  if (run_.config.record == RecordMode::kNever || run_.spec.IsReplica()) return;
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

}  // namespace ppc::maio
