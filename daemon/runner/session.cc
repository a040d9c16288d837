// SPDX-License-Identifier: Apache-2.0
#include "daemon/runner/session.h"

#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
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

// Lines of its log that ppcd can ask for.
constexpr size_t kLogLines = 200;

// The runtime's options, from the message or else from the configuration.
Json RuntimeIn(const Json& message) {
  const Json runtime = message.value("runtime", Json());
  const Json config = message.value("config", Json());
  return runtime.empty() && config.is_object() ? config.value("runtime", Json()) : runtime;
}

// The number that the supervisor has given to a request, which the answer repeats; null: none.
Json IdOf(const Result<Json>& request) { return request ? request->value("id", Json()) : Json(); }

UniqueFd OpenSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  return UniqueFd(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

}  // namespace

Session::Session(LogLevel level) : signals_(OpenSignals()) {
  SetLog("ppc-runner", level);
  KeepLog(kLogLines);
  signal(SIGPIPE, SIG_IGN);
  // Few arenas: the runner's threads allocate little, and its memory is limited.
  mallopt(M_ARENA_MAX, 2);
  // Large blocks that are needed once, such as a decoded template, return to the system when freed;
  // the default threshold would grow with the first of them.
  mallopt(M_MMAP_THRESHOLD, 128 << 10);
  // With huge pages enabled for all memory, a touched stack would take 2 MiB.
  (void)prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
}

Session::~Session() {
  if (socket_ != nullptr) socket_->StopReading();
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
  Result<std::unique_ptr<EventRecorder>> recorder = OpenRecorder(record_path_);
  if (!recorder) return recorder.error();
  recorder_ = *std::move(recorder);
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
  Result<RuntimeOptions> options = ParseRuntimeOptions(runtime);
  if (!options) return options.error();
  if (ShareMemory(topology->xpus) && !runtime.contains("reserve"))
    Log(LogLevel::kInfo, "accelerators share the machine's memory: set reserve to what they take");
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
  result.vendor_xpus = OpenVendorXpus(roots, topology->xpus);
  result.topology = std::move(*topology);
  result.options = std::move(*options);
  result.recorder = recorder_.get();
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
  runtime->SetMemoryShare(JsonNumber(message, "memory_share").value_or(kNoMemoryShare));
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

// The thread that runs the policy may be in a hook for long, so what can be told without it is.
void Session::HandleLine(const std::string& line) {
  Result<Json> request = ParseJsonObject(line, "request");
  const std::string op = request ? JsonText(*request, "op") : "";
  if (op == "status") return Send(runtime_->StatusNow(), IdOf(request));
  if (op == "log") {
    Json lines = Json::array();
    for (const LogLine& kept : RecentLog()) lines.push_back(LogLineJson(kept));
    return Send(Json{{"lines", std::move(lines)}}, IdOf(request));
  }
  {
    const std::lock_guard lock(requests_mutex_);
    requests_.push_back(std::move(request));
  }
  runtime_->Tell([this] { AnswerNext(); });
}

void Session::HandleEnd() {
  {
    const std::lock_guard lock(requests_mutex_);
    is_supervised_ = false;
  }
  runtime_->Tell([this] { AnswerNext(); });
}

void Session::AnswerNext() {
  if (is_answering_) return;
  Result<Json> request = Json();
  {
    const std::lock_guard lock(requests_mutex_);
    if (requests_.empty() && std::exchange(is_supervised_, true)) return;
    if (requests_.empty()) {
      Log(LogLevel::kWarning, "the supervisor is gone; draining");
      return runtime_->RequestStop();
    }
    request = std::move(requests_.front());
    requests_.pop_front();
  }
  is_answering_ = true;
  const auto next = [this] {
    is_answering_ = false;
    AnswerNext();
  };
  const Json id = IdOf(request);
  const std::string op = request ? JsonText(*request, "op") : "";
  if (op == "memory") {
    runtime_->SetMemoryShare(JsonNumber(*request, "share").value_or(kNoMemoryShare));
    return runtime_->Do(
        [this, id, groups = runtime_->ServiceCgroups(), reads = request->value("reads", Json())] {
          runtime_->SetReadShares(reads);
          Send(runtime_->MemoryJson(groups), id);
        },
        next);
  }
  if (op == "control" && request->contains("message") && (*request)["message"].is_object()) {
    return runtime_->Control((*request)["message"], [this, id, next](const Result<Json>& reply) {
      Send(reply ? Result<Json>(Json{{"reply", *reply}}) : reply, id);
      malloc_trim(0);  // a start makes tables of which a tenth stays
      runtime_->Do(nullptr, next);
    });
  }
  const Result<Json> answer = request ? Handle(*request) : request.error();
  runtime_->Do([this, answer, id] { Send(answer, id); }, next);
}

void Session::Send(const Result<Json>& answer, const Json& id) {
  Json line = answer ? *answer : control::ErrorAnswer(answer.error());
  if (answer) line["ok"] = true;
  if (!id.is_null()) line["id"] = id;
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
    while (runtime_ == nullptr) {
      const std::optional<std::string> line = socket_->NextLine();
      if (!line) break;
      const Result<Json> request = ParseJsonObject(*line, "request");
      const Result<Json> answer = request ? Handle(*request) : request.error();
      Send(answer, IdOf(request));
      // A process serves one registration: after a refusal it ends.
      if (!answer && backend_ != nullptr && runtime_ == nullptr) return kExitFailed;
    }
  }
  runtime_->executor().AddSource(signals_.Get(), [this](short) { runtime_->RequestStop(); });
  socket_->StartReading([this](const std::string& line) { HandleLine(line); },
                        [this] { HandleEnd(); });
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
  if (socket_ != nullptr) socket_->StopReading();
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

}  // namespace ppc
