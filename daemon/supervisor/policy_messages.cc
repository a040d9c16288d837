// SPDX-License-Identifier: Apache-2.0
#include "daemon/supervisor/policy_messages.h"

#include <utility>

namespace ppc::control {

PolicyMessages::PolicyMessages(EventLoop& loop, Services& services, Callbacks callbacks)
    : loop_(loop), services_(services), callbacks_(std::move(callbacks)) {}

void PolicyMessages::Send(Json message, JsonHandler done) {
  if (!control_ && refusal_) return done(*refusal_);
  if (waiting_.size() >= kMostWaiting)
    return done(Error{EAGAIN, "too many messages wait for the policy; try again later"});
  waiting_.push_back(Waiting{std::move(message), std::move(done)});
  SendWaiting();
}

// What is about a service that the runner does not know yet stays, in its order.
void PolicyMessages::SendWaiting() {
  for (size_t at = 0; control_ && at < waiting_.size() && unanswered_ < kMostUnanswered;) {
    if (untold_.contains(JsonText(waiting_[at].message, "service_id"))) {
      ++at;
      continue;
    }
    const Waiting next = std::move(waiting_[at]);
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(at));
    const std::weak_ptr<bool> alive = alive_;
    SendNow(next.message, next.done);  // which may send others, or end this object
    if (alive.expired()) return;
    at = 0;
  }
}

void PolicyMessages::Open(Control control, bool is_restart) {
  control_ = std::move(control);
  refusal_.reset();
  life_ = std::make_shared<bool>(true);
  std::deque<std::string> ids;
  for (const Service* service : services_.InOrder()) {
    if (is_restart || service->is_new) ids.push_back(service->id);
  }
  unanswered_ = 0;
  untold_ = {ids.begin(), ids.end()};
  TellServices(std::move(ids));
  SendWaiting();
}

void PolicyMessages::Hold() {
  control_ = nullptr;
  refusal_.reset();
  life_.reset();
  untold_.clear();
}

void PolicyMessages::Close(const Error& why) {
  Hold();
  refusal_ = why;
}

void PolicyMessages::RefuseWaiting(const Error& why) {
  for (const Waiting& waiting : std::exchange(waiting_, {})) waiting.done(why);
}

void PolicyMessages::SendNow(const Json& message, JsonHandler done) {
  const Json to_repeat = JsonText(message, "op") == "service_stop" ? message : Json();
  // By a copy: an answer at once may end it.
  const Control control = control_;
  ++unanswered_;
  control(message, [this, alive = std::weak_ptr<bool>(alive_), life = Life(life_), to_repeat,
                    done = std::move(done)](Result<Json> reply) {
    if (!life.expired()) --unanswered_;
    if (!reply && reply.error().code == EAGAIN && !alive.expired() && !to_repeat.is_null()) {
      StopLater(to_repeat);
    }
    done(std::move(reply));
    if (!life.expired()) SendWaiting();
  });
}

// A service that has ended must end, though the runner takes no more questions now.  One of its
// name that has been started meanwhile is another.
void PolicyMessages::StopLater(const Json& message) {
  constexpr Millis kAgain{500};
  loop_.After(kAgain, [this, life = Life(life_), message] {
    if (life.expired()) return;  // a new runner does not know it
    if (services_.Find(JsonText(message, "service_id")) != nullptr) return;
    SendNow(message, [](const Result<Json>&) {});
  });
}

// One after the other: a runner takes only so many questions at once.
void PolicyMessages::TellServices(std::deque<std::string> ids) {
  const Service* service = nullptr;
  while (service == nullptr && !ids.empty()) {
    service = services_.Find(ids.front());
    if (service == nullptr) untold_.erase(ids.front());  // it has been stopped meanwhile
    ids.pop_front();
  }
  if (service == nullptr) return SendWaiting();
  const std::function<void()> next = [this, id = service->id, ids, life = Life(life_)] {
    if (life.expired()) return;
    untold_.erase(id);
    TellServices(ids);
    if (!life.expired()) SendWaiting();
  };
  SendNow(service->Resumption(), [this, alive = std::weak_ptr<bool>(alive_), id = service->id,
                                  next](const Result<Json>& reply) {
    if (!alive.expired()) HandleTold(id, reply, next);
  });
}

void PolicyMessages::HandleTold(const std::string& id, const Result<Json>& reply,
                                const std::function<void()>& next) {
  Service* const service = services_.Find(id);
  if (!reply) {
    const bool is_new = service != nullptr && service->is_new;
    callbacks_.on_failed("service " + id + " was not " + (is_new ? "started" : "taken up again") +
                         ": " + reply.error().message);
    // It has never been taken up: what hangs or dies of it would do so for ever.
    if (service != nullptr && service->is_starting) {
      services_.Remove(id);
      callbacks_.on_change();
    }
    return next();
  }
  if (service == nullptr) return next();
  // A fresh runner counts its services anew.
  const bool was_new = std::exchange(service->is_new, false);
  if (service->TakeNumber(*reply) || was_new) callbacks_.on_change();
  service->is_starting = false;
  if (!service->is_ready || !control_) return next();
  SendNow({{"op", "service_ready"}, {"service_id", id}}, [next](const Result<Json>&) { next(); });
}

}  // namespace ppc::control
