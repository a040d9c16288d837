// SPDX-License-Identifier: Apache-2.0
// Starts that begin with the exec of a program that loaded a model here before.
#include <algorithm>
#include <utility>

#include "daemon/base/log.h"
#include "daemon/exec/auto_services.h"

namespace ppc {

// Nearly all that is told of an interpreter ends here or in the look.
void AutoServices::Guess(const Exec& exec) {
  if (parts_.learnt == nullptr || live_.size() >= kMaxServices || !parts_.learnt->Knows(exec))
    return;
  auto found = std::make_shared<std::optional<Identity>>();
  const auto look = [roots = parts_.roots, exec, found, members = parts_.services->Snapshot()] {
    std::optional<Program> program = ProgramOf(roots, exec.pid, exec.start_ns);
    // A program's children belong to its service, and processes of a told service to that one.
    if (!program || program->root.pid != exec.pid) return;
    if (OwnerOf(roots, *members, exec.pid, exec.start_ns, 0) != nullptr) return;
    *found = Identity{*std::move(program), "", false, exec.file};
    FindPayer(roots, &**found);
  };
  const auto begin = [this, found] {
    if (!*found) return;
    const LearntProgram* const known = parts_.learnt->Find((*found)->file, (*found)->program);
    if (known == nullptr) return;
    (*found)->id = known->service_id;
    (void)WithEnded(&live_, (*found)->id, [this, found] { BeginGuess(**found); });
  };
  (void)parts_.look_up(look, begin);
}

// It has missed meanwhile, or is to join a start of its process group.
bool AutoServices::HasStartOf(const Identity& identity) const {
  return std::ranges::any_of(live_, [&identity](const auto& entry) {
    const auto& [id, start] = entry;
    const bool is_same = IsOfFamily(id, identity.id) && start.group == identity.program.group;
    return is_same || HasOne(start.programs, identity.program.root);
  });
}

void AutoServices::BeginGuess(const Identity& identity) {
  const LearntProgram* const known = parts_.learnt->Find(identity.file, identity.program);
  const std::string free = FreeId(identity.id);
  if (known == nullptr || known->service_id != identity.id || free.empty() ||
      live_.size() >= kMaxServices || HasStartOf(identity)) {
    return;
  }
  const LearntProgram guess = parts_.learnt->TakeGuess(*known);
  const Root& root = identity.program.root;
  questions_.erase(root.pid);  // of what it ran before
  Begin(Reader{root.pid, root.start_ns, guess.model, "", false}, identity, free, &guess);
}

// The first read of a large file by a process of a guessed start.
void AutoServices::PlaceGuess(const Reader& reader, const Identity& identity) {
  const auto known = live_.find(reader.owner);
  Service* const service = parts_.services->Find(reader.owner);
  if (known == live_.end() || !known->second.is_guess || service == nullptr) return Decided(reader);
  Start& start = known->second;
  if (identity.id != start.learnt.service_id) {
    End(&live_, reader.owner);
    return PlaceAuto(reader, identity);
  }
  start.is_guess = false;
  start.learnt.wait_ns = SinceStart(start.programs.front());
  service->is_guess = false;
  service->empty_epoch = 0;  // what it could not have before is to be planned
  if (parts_.guard != nullptr) parts_.guard->EndGuess(GuardSlot(*service));
  parts_.learnt->NoteRight();
  Decided(reader);
}

uint64_t AutoServices::SinceStart(const Root& root) const {
  const uint64_t now = parts_.backend->NowNs();
  return now - std::min(now, root.start_ns);
}

// Without a file: a process of several users, or one that is not to be seen.
LearntProgram AutoServices::ToLearn(const Reader& reader, const Identity& identity) const {
  const Program& program = identity.program;
  if (parts_.learnt == nullptr || !program.uid) return {};
  return {.file = identity.file,
          .program = ProgramId(program),
          .service_id = identity.id,
          .model = reader.path,
          .cgroup = program.cgroup,
          .uid = *program.uid,
          .wait_ns = SinceStart(program.root)};
}

// Any program may look at a model's beginning.
void AutoServices::Learn(const std::string& id, Start* start) {
  if (start->is_learnt || start->is_guess || start->learnt.file.ino == 0) return;
  const Service* const service = parts_.services->Find(id);
  if (service == nullptr || parts_.guard == nullptr) return;
  if (parts_.guard->ReadBytes(GuardSlot(*service)) < kLargeBytes) return;
  start->is_learnt = true;
  parts_.learnt->NoteLoaded(start->learnt);
}

void AutoServices::NoteEnd(const std::string& id, Start* start) {
  if (parts_.learnt == nullptr) return;
  Learn(id, start);
  if (!start->is_guess) return;
  const Service* const service = parts_.services->Find(id);
  const bool is_known = service != nullptr && parts_.guard != nullptr;
  const uint64_t bytes = is_known ? parts_.guard->GuessedBytes(GuardSlot(*service)) : 0;
  parts_.learnt->NoteWrong(bytes);
  Log(LogLevel::kInfo, {"", id},
      "automatic service " + id + ": nothing of " + start->learnt.model +
          " was read, so the next start of the program begins with its first miss; " +
          std::to_string(bytes >> 20) + " MiB were loaded or about to be");
}

void AutoServices::EndLateGuesses() {
  const uint64_t now = parts_.backend->NowNs();
  std::vector<std::string> late;
  for (auto& [id, start] : live_) {
    Learn(id, &start);
    if (start.is_guess && start.is_started && now >= start.guess_until_ns) late.push_back(id);
  }
  for (const std::string& id : late) End(&live_, id);
}

}  // namespace ppc
