// SPDX-License-Identifier: Apache-2.0
#include "tools/ppcctl/attachment.h"

#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <system_error>
#include <thread>

#include "tools/ppcctl/output.h"
#include "tools/ppcctl/text.h"

namespace ppc::ctl {
namespace {

using std::chrono::milliseconds;

// What a command waits for a ppcd that runs.  One that is well answers within some milliseconds;
// the ID of a replica is its answer.
constexpr milliseconds kJoin(250);
// What the exit status waits for the first registration of a directory with a ppcd that runs.
constexpr unsigned kRegisterMs = 2000;

}  // namespace

std::shared_ptr<Attachment> Attachment::Begin(Options options) {
  std::shared_ptr<Attachment> attachment(new Attachment(std::move(options)));
  Attachment& self = *attachment;
  self.link_ = std::make_unique<DaemonLink>(self.options_.request.timeout_ms);
  if (!CallsForPrivateDaemon(self.link_->connect_code())) {
    self.InThread(&Attachment::AskRunning);
  } else if (const Status status = self.StartPrivate(); !status) {
    self.Failed(status.error());
  }
  return attachment;
}

// With all signals blocked: those to be passed on are the main thread's.
void Attachment::InThread(void (Attachment::*function)()) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    std::thread([self = shared_from_this(), function] { (self.get()->*function)(); }).detach();
  } catch (const std::system_error& e) {
    Failed(Error{e.code().value(), std::string("thread: ") + e.what()});
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Attachment::Move(Stage stage) {
  {
    const std::lock_guard lock(mutex_);
    stage_ = stage;
  }
  moved_.notify_all();
}

Status Attachment::StartPrivate() {
  Result<std::unique_ptr<PrivateDaemon>> daemon = PrivateDaemon::Start();
  if (!daemon) return daemon.error();
  // The first connection: it is served before any of the command's.  Registering may take long.
  link_ = std::make_unique<DaemonLink>(0, (*daemon)->socket());
  {
    const std::lock_guard lock(mutex_);
    daemon_ = *std::move(daemon);
    stage_ = Stage::kRegistering;
  }
  InThread(&Attachment::AskPrivate);
  return Ok();
}

void Attachment::AskRunning() {
  const ServiceRequest& request = options_.request;
  const bool is_asked = !request.policy.empty() || !request.config.empty();
  // The usual case, in one question.
  if (!is_asked && StartOn(*link_, request.directory, request.spec, service_)) return Started();
  const Result<Json> ping = link_->Ask({{"op", "ping"}});
  if (!ping && link_->is_unreachable() && CallsForPrivateDaemon(ping.error().code)) {
    return RequestPrivate();
  }
  if (!ping) return Failed(ping.error());
  if (JsonText(*ping, "rights") != "service") return RegisterAndStart(*link_);
  // It does not let us register, and has not what root has registered.
  RequestPrivate();
}

// By the thread that Begin() was called by, if that still waits.
void Attachment::RequestPrivate() {
  {
    const std::lock_guard lock(mutex_);
    if (may_start_private_) stage_ = Stage::kWantsPrivate;
  }
  moved_.notify_all();
  {
    const std::lock_guard lock(mutex_);
    if (stage_ == Stage::kWantsPrivate || daemon_) return;
  }
  Failed(Error{EAGAIN, "the ppcd that runs has no policy for " + options_.request.directory +
                           " and took too long to say so; try again"});
}

void Attachment::AskPrivate() {
  service_.socket = daemon_->socket();
  service_.is_private = true;
  RegisterAndStart(*link_);
}

void Attachment::RegisterAndStart(DaemonLink& link) {
  const auto registering = [this](const std::string& mount) {
    {
      const std::lock_guard lock(mutex_);
      mount_ = mount;
    }
    Move(Stage::kRegistering);
  };
  const Status status = ppc::ctl::RegisterAndStart(link, options_.request, service_, registering);
  if (status) return Started();
  if (service_.is_private && link.is_unreachable()) {
    return Failed(Error{status.error().code, daemon_->WhyMute(status.error())});
  }
  Failed(status.error());
}

void Attachment::Started() {
  StartOthers();
  std::unique_lock lock(mutex_);
  mount_ = service_.mount;
  told_.insert(told_.begin(),
               std::make_shared<RunningService>(service_.socket, service_.mount, service_.id,
                                                options_.request.timeout_ms));
  for (size_t i = 0; i < told_.size(); ++i) {
    if (is_ready_ || (i > 0 && are_others_ready_)) told_[i]->Ready();
  }
  lock.unlock();
  Decide(Stage::kStarted);
  link_.reset();  // a private ppcd serves others from now on
}

void Attachment::Failed(Error why) {
  {
    const std::lock_guard lock(mutex_);
    if (daemon_) daemon_->End(0);  // the command asks in vain, and need not wait for that
    why_ = std::move(why);
  }
  Decide(Stage::kFailed);
  link_.reset();
}

// What there is to say is said before End() sees the stage.
void Attachment::Decide(Stage stage) {
  std::unique_lock lock(mutex_);
  if (command_runs_) {
    lock.unlock();
    SayHowItWent();
    lock.lock();
  }
  stage_ = stage;
  moved_.notify_all();
}

// On other directories that the start reads: each a registration of its own.
void Attachment::StartOthers() {
  for (const std::string& given : options_.also) {
    const std::unique_ptr<char, FreeText> real(realpath(given.c_str(), nullptr));
    const int code = errno;
    // A part of it already.
    if (real && (std::string(real.get()) + "/").starts_with(service_.mount + "/")) continue;
    const Result<StartedService> other =
        real ? StartBeside(*link_, service_, real.get(), options_.request)
             : Result<StartedService>(PosixError("--also " + given, code));
    if (!other) {
      Complain("warning: " + other.error().message + "; " + given + " is read natively");
      continue;
    }
    const std::lock_guard lock(mutex_);
    told_.push_back(std::make_shared<RunningService>(other->socket, other->mount, other->id,
                                                     options_.request.timeout_ms));
  }
}

Status Attachment::WaitToJoin() {
  std::unique_lock lock(mutex_);
  const auto is_asking = [this] { return stage_ == Stage::kAsking; };
  if (daemon_ == nullptr) moved_.wait_for(lock, kJoin, [&] { return !is_asking(); });
  may_start_private_ = false;
  if (stage_ == Stage::kWantsPrivate) {
    lock.unlock();
    if (Status status = StartPrivate(); !status) Failed(status.error());
    lock.lock();
  }
  if (stage_ == Stage::kFailed) return *why_;
  return Ok();
}

Status Attachment::WaitUntilStarted() {
  {
    std::unique_lock lock(mutex_);
    moved_.wait(lock, [this] { return IsDecided() || stage_ == Stage::kWantsPrivate; });
  }
  if (Status status = WaitToJoin(); !status) return status;
  std::unique_lock lock(mutex_);
  moved_.wait(lock, [this] { return IsDecided(); });
  if (stage_ == Stage::kFailed) return *why_;
  return Ok();
}

Attachment::Known Attachment::known() const {
  const std::lock_guard lock(mutex_);
  Known known{.socket = daemon_ ? daemon_->socket() : "",
              .mount = mount_.empty() ? options_.request.directory : mount_,
              .id = options_.id,
              .name = options_.id,
              .daemon = daemon_ ? daemon_->pid() : 0,
              .is_started = stage_ == Stage::kStarted};
  if (known.is_started) {
    known.id = service_.id;
    known.name = service_.name;
  }
  return known;
}

void Attachment::CommandRuns() {
  std::unique_lock lock(mutex_);
  command_runs_ = true;
  const bool is_decided = IsDecided();
  lock.unlock();
  if (is_decided) SayHowItWent();
}

// Says, once the stage is decided, what outlives the command, and the name of the service if
// unusual.
void Attachment::SayHowItWent() const {
  if (why_) return Complain("warning: " + why_->message + "; running without");
  if (service_.is_new) {
    Complain(service_.mount + " has policy '" + service_.policy +
             "' from now on; to undo that: ppcctl rm_policy " + ShellWord(service_.mount));
  }
  if (service_.id != service_.name) {
    Complain("service " + service_.name + " runs already; this start is its replica " +
             service_.id);
  }
}

void Attachment::Ready() {
  const std::lock_guard lock(mutex_);
  is_ready_ = true;
  if (stage_ != Stage::kStarted) return;
  for (const auto& service : told_) service->Ready();
}

void Attachment::OthersReady() {
  const std::lock_guard lock(mutex_);
  are_others_ready_ = true;
  if (stage_ != Stage::kStarted) return;
  for (size_t i = 1; i < told_.size(); ++i) told_[i]->Ready();
}

bool Attachment::End(RunningService::Outcome outcome, const Limits& limits) {
  std::unique_lock lock(mutex_);
  // What stays registered is said.
  const bool is_first = stage_ == Stage::kRegistering && !daemon_;
  const milliseconds limit(is_first ? std::max(limits.start_ms, kRegisterMs) : limits.start_ms);
  moved_.wait_for(lock, limit, [this] { return IsDecided(); });
  const bool is_decided = IsDecided();
  const bool is_started = stage_ == Stage::kStarted;
  // What the private ppcd says to its own end is of no use.
  if (!is_decided && daemon_) command_runs_ = false;
  lock.unlock();
  // A private ppcd ends with us: no other start is awaited there.
  const bool is_awaited = outcome == RunningService::Outcome::kFailed && !daemon_;
  if (outcome == RunningService::Outcome::kFailed && !is_awaited) {
    outcome = RunningService::Outcome::kEnded;
  }
  bool are_told = true;
  if (is_started) {
    for (const auto& service : told_) are_told &= service->End(outcome, limits.tell_ms);
  }
  if (!are_told && limits.warns) {
    Complain(std::string("warning: the policy takes longer to end the service; ") +
             (daemon_ ? "what it learnt may be lost" : "it goes on without ppcctl"));
  }
  if (daemon_) daemon_->End(limits.daemon_ms);
  return is_decided && are_told;
}

}  // namespace ppc::ctl
