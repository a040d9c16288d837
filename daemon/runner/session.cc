// SPDX-License-Identifier: Apache-2.0
#include "daemon/runner/session.h"

#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

#include "daemon/base/log.h"
#include "daemon/runner/privileges.h"
#include "daemon/wire/exit_codes.h"
#include "daemon/wire/protocol.h"
#include "daemon/wire/service_id.h"

namespace ppc {
namespace {

// Without that member the memory is not shared.
uint64_t MemoryShareOf(const Json& message, const char* key) {
  const auto share = message.find(key);
  const bool is_there = share != message.end() && share->is_number_unsigned();
  return is_there ? share->get<uint64_t>() : kNoMemoryShare;
}

// The runtime's options, from the message or else from the configuration.
Json RuntimeIn(const Json& message) {
  const Json runtime = message.value("runtime", Json());
  const Json config = message.value("config", Json());
  return runtime.empty() && config.is_object() ? config.value("runtime", Json()) : runtime;
}

UniqueFd OpenSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  return UniqueFd(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

}  // namespace

Session::Session() : signals_(OpenSignals()) {}

Session::~Session() {
  // The policy's code must outlive its last call.
  runtime_.reset();
  plugin_.reset();
}

// Only a supervisor lends programs.
LentPrograms Session::TakeLent(const Choice& choice) const {
  LentPrograms lent;
  if (socket_ == nullptr) return lent;
  lent.dir = choice.lent_dir;
  for (int i = 0; i < choice.lent_count; ++i) {
    const int fd = choice.lent_first + i;
    if (fcntl(fd, F_SETFD, FD_CLOEXEC) == 0) lent.fds.emplace_back(fd);
  }
  return lent;
}

Status Session::OpenParts(const Choice& choice) {
  Result<std::unique_ptr<Backend>> backend = OpenBackend(
      choice.backend, choice.directory, RootsFromEnvironment(), TakeLent(choice), choice.device);
  if (!backend) return backend.error();
  backend_ = std::move(*backend);
  // Opening the device needed more privileges than running a policy does.
  Status dropped = ShedPrivileges(/*is_supervised=*/socket_ != nullptr);
  if (!dropped) return dropped;
  const Result<std::string> path = FindPolicy(choice.policy);
  if (!path) return path.error();
  Result<std::unique_ptr<Plugin>> plugin = Plugin::Open(*path);
  if (!plugin) return plugin.error();
  plugin_ = std::move(*plugin);
  if (record_path_.empty()) return Ok();
  Result<EventLogWriter> recorder = EventLogWriter::Create(record_path_);
  if (!recorder) return recorder.error();
  recorder_.emplace(std::move(*recorder));
  return Ok();
}

Result<RuntimeConfig> Session::MakeConfig(const Json& message, const std::string& mount) {
  const Json config = message.value("config", Json::object());
  if (!config.is_null() && !config.is_object()) {
    return Error{EINVAL, "\"config\" must be a JSON object"};
  }
  const Json runtime = RuntimeIn(message);
  const Status allowed = socket_ != nullptr ? CheckSupervised(runtime) : Ok();
  if (!allowed) return allowed.error();
  const SysRoots roots = RootsFromEnvironment();
  Result<Topology> topology = DetectTopology(TopologyOptions{roots, ""});
  if (!topology) return topology.error();
  Result<RuntimeOptions> options = ParseRuntimeOptions(runtime, ShareMemory(topology->xpus));
  if (!options) return options.error();
  if (ShareMemory(topology->xpus) && !runtime.contains("reserve"))
    Log(LogLevel::kInfo, "accelerators share the machine's memory: 10% of it is their reserve");
  const Result<std::string> templates = JsonString(message, "template_dir", options->template_dir);
  if (!templates) return templates.error();
  if (!runtime.is_object() || !runtime.contains("template_dir")) {
    options->template_dir = *templates;
  }
  RuntimeConfig result;
  result.mount = mount;
  result.policy_name = plugin_->Name();
  result.config = config.is_object() ? DumpJson(config) : "{}";
  result.roots = roots;
  result.vendor_xpus = std::make_shared<VendorXpus>(roots, topology->xpus);
  result.topology = std::move(*topology);
  result.options = std::move(*options);
  result.recorder = recorder_ ? &*recorder_ : nullptr;
  result.on_hang = [this](const std::string& what) { EndHung(what); };
  result.on_start_again = [this](const std::string& id) {
    if (socket_ != nullptr) socket_->Send(Json{{"event", "service_start"}, {"service_id", id}});
  };
  return result;
}

Result<Session::Choice> Session::ReadChoice(const Json& message) {
  const Result<std::string> mount = JsonString(message, "mount", "");
  const Result<std::string> policy = JsonString(message, "policy", "");
  const Result<std::string> backend = JsonString(message, "backend", "auto");
  if (!mount) return mount.error();
  if (!policy) return policy.error();
  if (!backend) return backend.error();
  if (mount->empty() || policy->empty()) {
    return Error{EINVAL, "init needs \"mount\" and \"policy\""};
  }
  const Result<BackendKind> kind = ParseBackendKind(*backend);
  if (!kind) return kind.error();
  Choice choice{*mount, *policy, *kind};
  const Json lent = message.value("lent", Json::object());
  if (lent.is_object()) {
    choice.lent_dir = lent.value("observer", 0U);
    choice.lent_first = lent.value("first_descriptor", 0);
    choice.lent_count = lent.value("descriptors", 0);
  }
  const Result<std::string> device = JsonString(message, "device", "");
  if (!device) return device.error();
  choice.device = *device;
  return choice;
}

Status Session::Init(const Json& message) {
  try {
    return Open(message);
  } catch (const std::system_error& error) {  // no more threads
    return Error{error.code().value(), error.what()};
  }
}

Status Session::Open(const Json& message) {
  if (runtime_ != nullptr) return Error{EALREADY, "this runner has its policy already"};
  const Result<Choice> choice = ReadChoice(message);
  if (!choice) return choice.error();
  SetLogDirectory(choice->directory);
  Status opened = OpenParts(*choice);
  if (!opened) return opened;
  Result<RuntimeConfig> config = MakeConfig(message, choice->directory);
  if (!config) return config.error();
  auto runtime = std::make_unique<Runtime>(backend_.get(), plugin_->table(), std::move(*config));
  runtime->SetMemoryShare(MemoryShareOf(message, "memory_share"));
  runtime->SetReadShares(message.value("reads", Json()));
  // A wrong configuration fails the registration; one that worked before may only lack an XPU now.
  const Result<Json> own = control::ServiceInConfig(message.value("config", Json()));
  if (!own) return own.error();
  if (!own->is_null() && message.value("fresh", true)) {
    const auto prepared = runtime->services().Prepare(*own);
    if (!prepared) return prepared.error();
  }
  Status started = runtime->Start();
  if (!started) return started;
  runtime_ = std::move(runtime);
  own_service_ = *own;
  malloc_trim(0);  // returns memory of the kernel's types, which opening the backend has read
  return Ok();
}

// ----------------------------------------------------------------------- serve

// Which backend was chosen, and its limits here.
Json Session::BackendJson() const {
  const Capabilities caps = backend_->Caps();
  return Json{{"backend", caps.backend}, {"limits", caps.limits}};
}

Result<Json> Session::Handle(const Json& request) {
  const Result<std::string> op = JsonString(request, "op", "");
  if (!op) return op.error();
  if (*op == "init") {
    const Status done = Init(request);
    if (!done) return done.error();
    return BackendJson();
  }
  if (*op == "ping") return Json::object();
  if (runtime_ == nullptr) return Error{ENOTCONN, "this runner has no policy yet: send init"};
  if (*op == "control") return Error{EINVAL, "control needs \"message\", an object"};
  if (*op == "stop") {
    runtime_->RequestStop();
    return Json::object();
  }
  return Error{EINVAL, "unknown op \"" + *op + "\""};
}

Json Session::Answer(const std::string& line) {
  const Result<Json> request = ParseJsonObject(line, "request");
  if (!request) return control::ErrorAnswer(request.error());
  Result<Json> answer = Handle(*request);
  if (!answer) return control::ErrorAnswer(answer.error());
  (*answer)["ok"] = true;
  return *answer;
}

void Session::Receive(Received* received) {
  received->is_open = socket_->Receive(/*wait=*/false);
  while (const std::optional<std::string> line = socket_->NextLine()) {
    received->requests.push_back(ParseJsonObject(*line, "request"));
  }
}

void Session::HandleSocket() {
  // Reads no further lines until these are answered.
  runtime_->executor().RemoveSource(socket_->fd());
  auto received = std::make_shared<Received>();
  runtime_->Do([this, received] { Receive(received.get()); },
               [this, received] { AnswerNext(received); });
}

void Session::AnswerNext(const std::shared_ptr<Received>& received) {
  Executor& executor = runtime_->executor();
  if (received->requests.empty() && received->is_open) {
    return executor.AddSource(socket_->fd(), [this](short) { HandleSocket(); });
  }
  if (received->requests.empty()) {
    Log(LogLevel::kWarning, "the supervisor is gone; draining");
    return runtime_->RequestStop();
  }
  const Result<Json> request = std::move(received->requests.front());
  received->requests.pop_front();
  const auto next = [this, received] { AnswerNext(received); };
  const Result<std::string> op = request ? JsonString(*request, "op", "") : request.error();
  if (op && *op == "status") {
    return runtime_->Do(
        [this, parts = runtime_->GatherStatus()] { Send(runtime_->StatusJson(parts)); }, next);
  }
  if (op && *op == "log") {
    Json lines = Json::array();
    for (const LogLine& line : RecentLog()) lines.push_back(LogLineJson(line));
    return runtime_->Do([this, lines = std::move(lines)] { Send(Json{{"lines", lines}}); }, next);
  }
  if (op && *op == "memory") {
    runtime_->SetMemoryShare(MemoryShareOf(*request, "share"));
    return runtime_->Do(
        [this, groups = runtime_->ServiceCgroups(), reads = request->value("reads", Json())] {
          runtime_->SetReadShares(reads);
          Send(runtime_->MemoryJson(groups));
        },
        next);
  }
  if (op && *op == "control" && request->contains("message") && (*request)["message"].is_object()) {
    return runtime_->Control((*request)["message"], [this, next](const Result<Json>& reply) {
      Send(reply ? Result<Json>(Json{{"reply", *reply}}) : reply);
      malloc_trim(0);  // a start makes tables of which a tenth stays
      runtime_->Do(nullptr, next);
    });
  }
  const Result<Json> answer = op ? Handle(*request) : op.error();
  runtime_->Do([this, answer] { Send(answer); }, next);
}

void Session::Send(const Result<Json>& answer) {
  Json line = answer ? *answer : control::ErrorAnswer(answer.error());
  if (answer) line["ok"] = true;
  socket_->Send(line);
}

bool Session::WaitForSocket() {
  pollfd fds[] = {{socket_->fd(), POLLIN, 0}, {signals_.Get(), POLLIN, 0}};
  while (poll(fds, 2, -1) < 0 && errno == EINTR) {
  }
  return fds[1].revents == 0;
}

int Session::Serve(UniqueFd socket) {
  socket_ = std::make_unique<LineSocket>(std::move(socket));
  while (runtime_ == nullptr) {
    if (!WaitForSocket() || !socket_->Receive(/*wait=*/true)) return kExitStopped;
    while (const std::optional<std::string> line = socket_->NextLine()) {
      const Json answer = Answer(*line);
      socket_->Send(answer);
      // A process serves one registration: after a refusal it ends.
      if (answer["ok"] == false && backend_ != nullptr && runtime_ == nullptr) return kExitFailed;
    }
  }
  Executor& executor = runtime_->executor();
  executor.AddSource(socket_->fd(), [this](short) { HandleSocket(); });
  executor.AddSource(signals_.Get(), [this](short) { runtime_->RequestStop(); });
  return Finish(runtime_->Run());
}

int Session::RunAlone() {
  runtime_->executor().AddSource(signals_.Get(), [this](short) { runtime_->RequestStop(); });
  if (!own_service_.is_null()) {
    runtime_->Control(own_service_, [](const Result<Json>& answer) {
      if (!answer) Log(LogLevel::kError, "its service: " + answer.error().message);
    });
  }
  Log(LogLevel::kInfo, "policy " + plugin_->Name() + " is attached");
  return Finish(runtime_->Run());
}

void Session::Tell(const char* event, const std::string& error) {
  Log(LogLevel::kError, error);
  if (socket_ != nullptr) socket_->Send(Json{{"event", event}, {"error", error}});
}

void Session::EndHung(const std::string& message) {
  Tell("dropped", message);
  // The thread in the hook never returns, so no destructor may run and wait for it.
  _exit(kExitHung);
}

int Session::Finish(Executor::End end) {
  int code = kExitStopped;
  switch (end) {
    case Executor::End::kRunning:
    case Executor::End::kStopped:
      break;
    case Executor::End::kDropped:
      Tell("dropped", "policy " + plugin_->Name() + ": " + runtime_->host().LastFault());
      code = kExitDropped;
      break;
    case Executor::End::kExpired:
      Tell("expired", "the lease ran out before events were consumed; native policy in force");
      code = kExitExpired;
      break;
    case Executor::End::kGone:
      Tell("gone", "the mount is gone");
      code = kExitMountGone;
      break;
  }
  runtime_->Shutdown();
  if (recorder_) {
    const Status written = recorder_->Finish();
    if (!written) Log(LogLevel::kError, written.error().message);
  }
  if (socket_ == nullptr) std::printf("%s\n", DumpJson(runtime_->StatusJson()).c_str());
  std::fflush(nullptr);
  // A destructor must not wait for a hanging process.
  if (runtime_->IsStuck()) _exit(code);
  return code;
}

bool LineSocket::Receive(bool wait) {
  char part[16384];
  const ssize_t got = recv(fd_.Get(), part, sizeof(part), wait ? 0 : MSG_DONTWAIT);
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  if (got == 0) return false;
  buffer_.append(part, static_cast<size_t>(got));
  return buffer_.size() <= kMaxLine || buffer_.find('\n') != std::string::npos;
}

std::optional<std::string> LineSocket::NextLine() {
  const size_t end = buffer_.find('\n');
  if (end == std::string::npos) return std::nullopt;
  std::string line = buffer_.substr(0, end);
  buffer_.erase(0, end + 1);
  return line;
}

void LineSocket::Send(const Json& line) {
  const std::string text = DumpJson(line) + "\n";
  const std::lock_guard lock(send_mutex_);
  for (size_t at = 0; at < text.size();) {
    const ssize_t put = send(fd_.Get(), text.data() + at, text.size() - at, MSG_NOSIGNAL);
    if (put < 0 && errno == EINTR) continue;
    // Receive() notices a closed peer.
    if (put <= 0) return;
    at += static_cast<size_t>(put);
  }
}

}  // namespace ppc
