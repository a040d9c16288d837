// SPDX-License-Identifier: Apache-2.0
// Owns which programs have loaded a model here, as which automatic service, by whose processes;
// and whether the next start of each may be guessed.  A guess takes that away, and a load of a
// model gives it back: a program that loads nothing is guessed once.
//
// It is kept in a file beside the templates, so that it outlives the runner.
// Built by extras/learnt_starts; without that nothing is learnt.
// Threads: the executor's; the file is written elsewhere.
#ifndef PPC_DAEMON_EXEC_LEARNT_PROGRAMS_H_
#define PPC_DAEMON_EXEC_LEARNT_PROGRAMS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/backend/backend.h"
#include "daemon/base/result.h"
#include "daemon/exec/program.h"

namespace ppc {

struct LearntProgram {
  Executable file;         // of an interpreter: the interpreter
  std::string program;     // ProgramId
  std::string service_id;  // of its automatic service
  std::string model;       // the file that its readers missed first
  std::string cgroup;      // as /proc writes it: systemd makes a unit's group anew at each start
  uint32_t uid = 0;
  uint64_t wait_ns = 0;  // between its start and its first read of the model
  bool may_guess = true;

  bool IsOf(const Program& other) const;
  bool operator==(const LearntProgram&) const = default;
};

class LearntPrograms {
 public:
  static constexpr size_t kMost = 64;  // the one that loaded longest ago is replaced

  struct Parts {
    Backend* backend = nullptr;  // tells execs; nullptr: none is told
    std::string path;            // of the file; "": nothing is kept
    // Runtime::Do.
    std::function<void(std::function<void()> work, std::function<void()> done)> offload;
  };
  struct Stats {  // counts, but for the last
    uint64_t programs = 0;
    uint64_t guesses = 0;
    uint64_t right = 0;
    uint64_t wrong = 0;
    uint64_t wrong_bytes = 0;  // submitted to be loaded by wrong guesses
  };

  explicit LearntPrograms(Parts parts) : parts_(std::move(parts)) {}
  static bool AreBuilt();

  // Reads the file, on the caller's thread; a damaged one is told in one line and replaced.
  void Open();

  // A start that could be guessed, as far as the exec alone tells.
  bool Knows(const Exec& exec) const;
  // The same by the program, which is compared before anything is loaded; nullptr: none.  If it
  // loaded several models, the last one.  Valid until the next change.
  const LearntProgram* Find(const Executable& file, const Program& program) const;
  LearntProgram TakeGuess(const LearntProgram& known);
  // It has loaded a model.
  void NoteLoaded(LearntProgram loaded);
  void NoteRight() { ++stats_.right; }
  void NoteWrong(uint64_t bytes);

  Stats View() const;
  size_t size() const { return programs_.size(); }
  // The file's text, and what is read of one.
  std::string Dump() const;
  static Result<std::vector<LearntProgram>> Parse(std::string_view text, const std::string& what);

 private:
  void Changed();
  void Watch() const;

  const Parts parts_;
  std::vector<LearntProgram> programs_;  // the one that loaded last is last
  Stats stats_;
};

// Names the executable and, of an interpreter, the script: the same from one start to the next.
std::string ProgramId(const Program& program);

}  // namespace ppc

#endif  // PPC_DAEMON_EXEC_LEARNT_PROGRAMS_H_
