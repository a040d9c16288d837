// SPDX-License-Identifier: Apache-2.0
#include "daemon/exec/auto_services.h"

#include <algorithm>
#include <string_view>

#include "daemon/base/log.h"
#include "daemon/machine/proc_info.h"

namespace ppc {
namespace {

using Root = Membership::Root;

bool IsPosition(EventKind kind) {
  return kind == EventKind::kProgress || kind == EventKind::kAccess;
}

}  // namespace

std::optional<AutoServices::Identity> AutoServices::Identify(const SysRoots& roots,
                                                             Backend* backend, const Reader& reader,
                                                             bool learns) {
  std::optional<Program> program = ProgramOf(roots, reader.pid, reader.start_ns);
  if (!program) return std::nullopt;
  Identity found{*std::move(program), reader.is_of_guess ? "" : reader.owner, false, {}};
  const bool is_auto = found.id.empty();
  if (is_auto) found.id = AutoServiceId(found.program, ModelOf(backend, reader.path));
  FindPayer(roots, &found);
  if (!is_auto || !learns) return found;
  const std::string exe = "/" + std::to_string(found.program.root.pid) + "/exe";
  const Result<Executable> file = backend->ExecutableAt(roots.Proc(exe));
  if (file) found.file = *file;
  return found;
}

void AutoServices::FindPayer(const SysRoots& roots, Identity* identity) {
  const std::string& cgroup = identity->program.cgroup;
  identity->has_cgroup = !cgroup.empty() && cgroup != "/" && Cgroup::Open(cgroup, roots);
}

bool AutoServices::Takes(const Event& event, uint64_t file_bytes, const std::string& path,
                         const Service& owner) {
  // A reader hits the pages that a guess has loaded, so its hits are asked about as well.
  const bool is_asked = IsMiss(event.kind) || (owner.is_guess && IsPosition(event.kind));
  if (!is_asked || file_bytes < kPartBytes) return false;
  if (owner.id.empty() && !parts_.has_autos) return false;
  const bool is_large = file_bytes >= kLargeBytes;
  if (!is_large && !MissesManyFiles(event, file_bytes, path)) return false;
  if (questions_.size() >= kMaxProcesses) questions_.clear();
  Question& question = questions_[event.tgid];
  if (question.start_ns == event.start_ns && question.is_of_guess == owner.is_guess)
    return !question.is_decided;
  const bool is_too_many = owner.id.empty() && live_.size() >= kMaxServices;
  question = {event.start_ns, is_too_many, owner.is_guess};
  if (question.is_decided) return false;
  const std::string model = is_large ? path : path.substr(0, path.rfind('/') + 1);
  directory_misses_.erase(event.tgid);
  wanted_.push_back({event.tgid, event.start_ns, model, owner.id, owner.is_guess});
  return true;
}

bool AutoServices::MissesManyFiles(const Event& event, uint64_t file_bytes,
                                   const std::string& path) {
  const auto question = questions_.find(event.tgid);
  if (question != questions_.end() && question->second.start_ns == event.start_ns) return true;
  if (directory_misses_.size() >= kMaxProcesses) directory_misses_.clear();
  DirectoryMisses& misses = directory_misses_[event.tgid];
  const std::string_view directory = std::string_view(path).substr(0, path.rfind('/') + 1);
  if (misses.start_ns != event.start_ns || misses.directory != directory)
    misses = {event.start_ns, std::string(directory), {}, 0};
  if (std::ranges::find(misses.files, event.file) == misses.files.end()) {
    misses.files.push_back(event.file);
    misses.bytes += file_bytes;
  }
  return misses.bytes >= kManyBytes;
}

void AutoServices::Decide() {
  const bool learns = parts_.learnt != nullptr;
  for (const Reader& reader : std::exchange(wanted_, {})) {
    auto identity = std::make_shared<std::optional<Identity>>();
    const auto place = [this, reader, identity] {
      if (!*identity) return Decided(reader);
      const bool is_open = !reader.owner.empty() && !reader.is_of_guess;
      const bool is_taken = WithEnded(is_open ? &open_ : &live_, (*identity)->id,
                                      [this, reader, identity] { Place(reader, **identity); });
      if (!is_taken) Decided(reader);
    };
    const bool is_taken =
        parts_.look_up([roots = parts_.roots, backend = parts_.backend, reader, identity,
                        learns] { *identity = Identify(roots, backend, reader, learns); },
                       place);
    if (!is_taken) Decided(reader);
  }
}

void AutoServices::Place(const Reader& reader, const Identity& identity) {
  if (reader.is_of_guess) return PlaceGuess(reader, identity);
  reader.owner.empty() ? PlaceAuto(reader, identity) : PlaceOpen(reader, identity);
}

// Ends the starts of a family ("": all of them) whose programs have all ended, or belong to a told
// service; then then().  False: /proc cannot be read now.
bool AutoServices::WithEnded(Starts* starts, const std::string& family,
                             std::function<void()> then) {
  auto looked = std::make_shared<Starts>();
  for (const auto& [id, start] : *starts) {
    if (family.empty() || IsOfFamily(id, family)) looked->insert({id, start});
  }
  if (looked->empty()) {
    then();
    return true;
  }
  const auto look = [roots = parts_.roots, looked, members = parts_.services->Snapshot()] {
    const auto is_on = [&](const std::string& id, const Root& root) {
      if (!IsSameProcess(roots, root.pid, root.start_ns)) return false;
      const Members::Entry* owner = OwnerOf(roots, *members, root.pid, root.start_ns, 0);
      return owner == nullptr || owner->told.is_auto || owner->id == id;
    };
    std::erase_if(*looked, [&](const auto& entry) {
      return std::ranges::any_of(entry.second.programs,
                                 [&](const Root& root) { return is_on(entry.first, root); });
    });
  };
  return parts_.look_up(look, [this, starts, looked, then = std::move(then)] {
    for (const auto& [id, start] : *looked) {
      const auto known = starts->find(id);
      // Another program may have come meanwhile.
      if (known != starts->end() && known->second.programs == start.programs) End(starts, id);
    }
    then();
  });
}

// The first is called by its program's name, others beside it are its replicas.
void AutoServices::PlaceAuto(const Reader& reader, const Identity& identity) {
  const Root& program = identity.program.root;
  for (auto& [id, start] : live_) {
    if (!IsOfFamily(id, identity.id)) continue;
    const bool is_its = HasOne(start.programs, program);
    if (!is_its &&
        (start.group != identity.program.group || start.programs.size() >= kMaxPrograms)) {
      continue;
    }
    if (!is_its) start.programs.push_back(program);
    if (!start.is_started) {
      start.waiting.push_back(reader);
      return;
    }
    if (!is_its) parts_.services->AddRoot(id, program);
    return Decided(reader);
  }
  const std::string free = FreeId(identity.id);
  if (free.empty()) return Decided(reader);
  Begin(reader, identity, free);
}

std::string AutoServices::FreeId(const std::string& family) const {
  for (size_t replica = 1; replica <= kMaxServices; ++replica) {
    std::string id = family + (replica == 1 ? "" : "." + std::to_string(replica));
    if (!live_.contains(id)) return id;
  }
  return "";
}

void AutoServices::Begin(const Reader& reader, const Identity& identity, const std::string& id,
                         const LearntProgram* guess) {
  const Program& program = identity.program;
  Json message{{"op", "service_start"}, {"service_id", id}, {"pid", program.root.pid},
               {"by_cgroup", false},    {"auto", true},     {"params", {{"model", reader.path}}}};
  if (id != identity.id) message["template"] = identity.id;
  if (identity.has_cgroup) message["cgroup"] = program.cgroup;
  if (guess != nullptr) message["guess"] = true;
  Start& start = live_[id];
  start.programs = {program.root};
  start.group = program.group;
  start.learnt = guess != nullptr ? *guess : ToLearn(reader, identity);
  start.is_guess = guess != nullptr;
  if (guess != nullptr) {
    const uint64_t wait_ns = std::clamp(2 * guess->wait_ns, kLeastGuessNs, kMostGuessNs);
    start.guess_until_ns = parts_.backend->NowNs() + wait_ns;
  }
  const std::string what = program.script.empty() ? program.exe : program.script;
  const bool is_guess = guess != nullptr;
  parts_.control(std::move(message),
                 [this, reader, id, what, is_guess](const Result<Json>& answer) {
                   const bool is_started = answer.ok();
                   Log(is_started ? LogLevel::kInfo : LogLevel::kWarning, {"", id},
                       "automatic service " + id + " of process " + std::to_string(reader.pid) +
                           " (" + what + ", " + reader.path + "): " +
                           (!is_started ? answer.error().message
                            : is_guess  ? "started before its first read"
                                        : "started"));
                   parts_.offload(nullptr, [this, reader, id, is_started, is_guess] {
                     Started(id, is_started);
                     // A guess has no reader yet: the first event of one is to be decided on.
                     is_guess ? parts_.on_decided() : Decided(reader);
                   });
                 });
}

void AutoServices::Started(const std::string& id, bool is_started) {
  const auto known = live_.find(id);
  if (known == live_.end()) return;
  known->second.is_started = is_started;
  const std::vector<Reader> waiting = std::exchange(known->second.waiting, {});
  const std::vector<Root>& programs = known->second.programs;
  // The first is the one that it was started with.
  for (size_t i = 1; is_started && i < programs.size(); ++i)
    parts_.services->AddRoot(id, programs[i]);
  if (!is_started) {
    NoteEnd(id, &known->second);
    live_.erase(known);
  }
  for (const Reader& reader : waiting) Decided(reader);
}

void AutoServices::PlaceOpen(const Reader& reader, const Identity& identity) {
  const Service* const service = parts_.services->Find(identity.id);
  if (service == nullptr) return Decided(reader);
  // The readers of a service that a runner takes up again are not known: the first is one of them.
  const auto says = [service](const char* key) {
    return service->message.value(key, Json()) == true;
  };
  const auto known = open_.find(identity.id);
  const bool begins =
      known == open_.end() ? says("ready") && !says("resumed") : known->second.programs.empty();
  if (begins) return BeginAgain(reader, identity);
  std::vector<Root>& programs = open_[identity.id].programs;
  if (!HasOne(programs, identity.program.root) && programs.size() < kMaxPrograms) {
    programs.push_back(identity.program.root);
  }
  Decided(reader);
}

void AutoServices::BeginAgain(const Reader& reader, const Identity& identity) {
  Json message = parts_.services->Find(identity.id)->message;
  for (const char* key : {"resumed", "ready", "failed"}) message.erase(key);
  open_[identity.id].programs = {identity.program.root};
  Log(LogLevel::kInfo, {"", identity.id},
      "service " + identity.id + " starts: process " + std::to_string(reader.pid) +
          " reads, and no program that had read before runs");
  parts_.control(std::move(message), [this, reader, id = identity.id](const Result<Json>&) {
    if (parts_.on_again) parts_.on_again(id);
    parts_.offload(nullptr, [this, reader] { Decided(reader); });
  });
}

void AutoServices::Decided(const Reader& reader) {
  questions_[reader.pid] = {reader.start_ns, /*is_decided=*/true, reader.is_of_guess};
  parts_.on_decided();
}

// An open service goes on: its next reader begins a start.
void AutoServices::End(Starts* starts, const std::string& id) {
  if (starts == &open_) {
    open_[id].programs.clear();
    return;
  }
  NoteEnd(id, &live_[id]);
  const Start ended = std::exchange(live_[id], {});
  live_.erase(id);
  for (const Reader& reader : ended.waiting) Decided(reader);
  parts_.control({{"op", "service_stop"}, {"service_id", id}, {"reason", "exit"}},
                 [](const Result<Json>&) {});
}

void AutoServices::EndGone() {
  std::erase_if(open_, [this](const auto& entry) {
    const Service* const service = parts_.services->Find(entry.first);
    return service == nullptr || !service->told.is_open();
  });
  if (parts_.learnt != nullptr) EndLateGuesses();
  (void)WithEnded(&live_, "", [] {});
}

}  // namespace ppc
