// SPDX-License-Identifier: Apache-2.0
// Control messages: Runtime::Control.
//
// A message is prepared on the control queue (files, /proc, JSON), applied on the executor's
// thread (the tables and the policy's hook), and concluded on the control queue.  One at a time:
// the next is prepared when the one before has been answered.
#include <cerrno>
#include <utility>

#include "daemon/exec/runtime.h"

namespace ppc {
namespace {

// What the policy said, as an object; {"error": ...} is a refusal.
Result<Json> ReadReply(const Result<std::string>& reply) {
  if (!reply) return reply.error();
  Result<Json> parsed = ParseJsonObject(*reply, "the policy's reply");
  if (!parsed) return parsed;
  const auto error = parsed->find("error");
  if (error == parsed->end()) return parsed;
  return Error{ECANCELED, error->is_string() ? error->get<std::string>() : DumpJson(*error)};
}

}  // namespace

void Runtime::PrepareStart(ControlCall* call) {
  call->restarts = services_->NumberOf(call->id).has_value();
  Result<std::unique_ptr<Service>> service = services_->Prepare(call->message);
  if (!service) {
    call->error = service.error();
    return;
  }
  call->number = (*service)->number;
  Json passed = call->message;
  passed["service"] = call->number;
  passed["xpus"] = (*service)->xpus;
  call->text = DumpJson(passed);
  call->passes = true;
  call->answer["service_id"] = call->id;
  call->answer["service"] = call->number;
  if (!(*service)->note.empty()) call->answer["note"] = (*service)->note;
  call->service = std::move(*service);
}

void Runtime::PrepareProcess(ControlCall* call) {
  constexpr int64_t kMost = 0x7fffffff;
  const Result<int64_t> pid = JsonInt(call->message, "pid", 0);
  const Result<int64_t> worker = JsonInt(call->message, "worker", -1);
  if (!pid) {
    call->error = pid.error();
  } else if (*pid <= 0 || *pid > kMost) {
    call->error = Error{EINVAL, call->op + " needs \"pid\", a process"};
  } else if (call->op == "explain_pid") {
    Result<Json> told = services_->ExplainProcess(static_cast<int>(*pid));
    if (told) {
      call->answer = std::move(*told);
    } else {
      call->error = told.error();
    }
  } else if (!worker) {
    call->error = worker.error();
  } else if (*worker > kMost) {
    call->error = Error{EINVAL, "\"worker\" is too large"};
  } else {
    const Result<uint64_t> start =
        services_->PrepareBinding(call->id, static_cast<int>(*pid), static_cast<int>(*worker));
    if (!start) {
      call->error = start.error();
      return;
    }
    call->pid = static_cast<int>(*pid);
    call->start_ns = *start;
  }
}

void Runtime::Prepare(ControlCall* call) {
  const Result<std::string> op = JsonString(call->message, "op", "");
  const Result<std::string> id = JsonString(call->message, "service_id", "");
  if (!op || op->empty()) {
    call->error = op ? Error{EINVAL, "a control message needs \"op\""} : op.error();
    return;
  }
  call->op = *op;
  const bool is_service = *op == "service_ready" || *op == "service_stop" ||
                          *op == "service_phase" || *op == "service_failed";
  const bool is_process = *op == "explain_pid" || *op == "bind_pid";
  if (!id && (is_service || is_process || *op == "service_start")) {
    call->error = id.error();
    return;
  }
  if (id) call->id = *id;
  if (*op == "service_start") return PrepareStart(call);
  if (is_process) return PrepareProcess(call);
  Json passed = call->message;
  if (is_service) {
    const std::optional<uint32_t> number = services_->NumberOf(call->id);
    if (!number) {
      call->error = Error{ENOENT, "service \"" + call->id + "\" is not started here"};
      return;
    }
    passed["service"] = call->number = *number;
  }
  call->text = DumpJson(passed);
  call->passes = true;
}

void Runtime::Apply(ControlCall* call) {
  if (call->error) return;
  if (call->pid != 0) services_->Bind(call->id, call->pid, call->start_ns);
  if (call->service != nullptr) {
    const bool is_told = !call->service->is_auto;
    const Service* const service = services_->Install(std::move(call->service));
    files_->AskAnew();
    if (guard_ != nullptr) guard_->Begin(GuardSlot(*service), call->id, backend_->NowNs());
    if (guard_ != nullptr && service->is_guess) guard_->BeginGuess(GuardSlot(*service));
    if (is_told && autos_ != nullptr) autos_->EndGone();
  }
  if (!call->passes) return;
  if (guard_ != nullptr && call->op == "service_failed")
    guard_->Await(GuardSlot(*services_->Get(call->number)));
  call->reply = host_->Control(call->text);
  const bool is_of_service = call->op.starts_with("service_");
  if (is_of_service) services_->Get(call->number)->empty_epoch = 0;
  if (!is_of_service) executor_->AskForPlans();
  const bool stops = call->op == "service_stop";
  // At its end a service may leave pages that no reader needs.
  if (stops || call->op == "service_ready") executor_->AskForEvictions();
  const Service* const ready = call->op == "service_ready" ? services_->Find(call->id) : nullptr;
  if (ready != nullptr && guard_ != nullptr) guard_->EndLoad(GuardSlot(*ready));
  if (stops) EndService(call->id);
}

Result<Json> Runtime::Conclude(ControlCall* call) {
  if (call->error) return *call->error;
  if (!call->passes) return call->answer;
  Result<Json> reply = ReadReply(*call->reply);
  const bool is_service = call->op.starts_with("service_");
  if (!reply && !(is_service && reply.error().code == ENOTSUP)) return reply;
  // A policy that does not know services still gets the service's budget and payer.
  Json answer = reply ? std::move(*reply) : Json::object();
  for (const auto& [key, value] : call->answer.items()) answer[key] = value;
  return answer;
}

// What ran under this name before has lost its place; the policy may know it still.
void Runtime::UndoStart(const ControlCall& call) {
  if (call.restarts) {
    (void)host_->Control(
        DumpJson({{"op", "service_stop"}, {"service_id", call.id}, {"service", call.number}}));
  }
  EndService(call.id);
}

void Runtime::EndService(const std::string& id) {
  const Service* const service = services_->Find(id);
  if (service == nullptr) return;
  loader_->EndService(service->number);
  if (guard_ != nullptr) guard_->End(GuardSlot(*service));
  services_->Stop(id);
}

// Our services have changed.
void Runtime::TellNeighbours() { neighbours_.SetServices(services_->Cgroups()); }

void Runtime::Control(Json message, const std::function<void(Result<Json>)>& done) {
  auto call = std::make_shared<ControlCall>();
  call->message = std::move(message);
  const auto finish = [this, call, done] {
    Result<Json> answer = Conclude(call.get());
    if (call->op == "service_start" || call->op == "service_stop") TellNeighbours();
    if (answer || call->op != "service_start" || call->error) return done(std::move(answer));
    // Nothing of it stays.
    Do(nullptr, [this, call, done, answer = std::move(answer)] {
      UndoStart(*call);
      Do(
          [this, done, answer] {
            TellNeighbours();
            done(answer);
          },
          nullptr);
    });
  };
  const auto apply = [this, call, finish] {
    const auto now = [this, call, finish] {
      Apply(call.get());
      Do(finish, nullptr);
    };
    if (!started_ || shut_down_) return now();
    // What the service did before it said this is still in the rings, or not there yet.
    const bool is_of_service = !call->error && call->op.starts_with("service_");
    if (is_of_service) backend_->Gather();
    // One that starts has no readers yet.
    std::optional<int> service;
    if (is_of_service)
      service = call->op == "service_start" ? Readers::kNoService : static_cast<int>(call->number);
    executor_->CatchUp(now, service);
  };
  const auto prepare = [this, call] { Prepare(call.get()); };
  if (JsonText(call->message, "op") != "explain_pid") return Do(prepare, apply);
  // The one message that reads what a process keeps to itself while it hangs.
  if (LookUp(prepare, apply)) return;
  call->error = Error{EAGAIN, "too many processes are being looked up; try again"};
  Do(nullptr, apply);
}

// work() on the control queue, done() on the executor's thread; where there is but one, at once.
void Runtime::Do(const std::function<void()>& work, const std::function<void()>& done) {
  if (!config_.manual) {
    // Refused once everything has ended: then there is one thread.
    const Status taken = control_->Continue(work, done);
    if (taken) return;
  }
  if (work) work();
  if (done) done();
}

// Never on the executor's thread, where a process that hangs would hold up all others.
bool Runtime::LookUp(std::function<void()> work, std::function<void()> done) {
  if (!config_.manual) return lookups_->Submit(std::move(work), std::move(done)).ok();
  work();
  done();
  return true;
}

Result<Json> Runtime::Control(const Json& message) {
  Result<Json> answer = Error{EAGAIN, "the runtime has threads of its own"};
  Control(message, [&answer](Result<Json> given) { answer = std::move(given); });
  return answer;
}

}  // namespace ppc
