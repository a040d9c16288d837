// SPDX-License-Identifier: Apache-2.0
// Owns the starts of which no message tells.
//
// A reader that belongs to no service gets an automatic one at its first miss in a large file, or
// when it has missed in many smaller ones of a directory, which are its model then: of all
// processes of its process group that run the same program, and their descendants.  Its ID is made
// of the program and the model (see program.h), so that the next start finds what was recorded.  It
// ends when these processes have.
//
// An open service (the registration's own) stands while its readers come and go: when all programs
// that have read have ended, the next one to read begins another start of it.
//
// A program that loaded a model here before has its automatic service from its exec on, as a guess
// (see learnt_programs.h).  The guess is right with the first read of the model; else it is wrong,
// and the service ends with its program, or when nothing is read for a while.
//
// Threads: the executor's; /proc and directories are read elsewhere.
#ifndef PPC_DAEMON_EXEC_AUTO_SERVICES_H_
#define PPC_DAEMON_EXEC_AUTO_SERVICES_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "daemon/backend/backend.h"
#include "daemon/base/json.h"
#include "daemon/exec/guard.h"
#include "daemon/exec/job_queue.h"
#include "daemon/exec/learnt_programs.h"
#include "daemon/exec/program.h"
#include "daemon/exec/service_table.h"

namespace ppc {

class AutoServices {
 public:
  // Any process may look at a smaller file, or at a few.
  static constexpr uint64_t kLargeBytes = 32 << 20;
  static constexpr uint64_t kPartBytes = 1 << 20;   // at least, of one of many
  static constexpr uint64_t kManyBytes = 64 << 20;  // of all that were missed

  struct Parts {
    ServiceTable* services = nullptr;
    Backend* backend = nullptr;  // lists directories; nullptr: none is listed
    SysRoots roots;
    // Runtime::Control and Runtime::Do.
    std::function<void(Json message, std::function<void(Result<Json>)> done)> control;
    std::function<void(std::function<void()> work, std::function<void()> done)> offload;
    // For what reads of a process, which may take as long as it hangs.
    Offload look_up;
    // A reader has been decided on.
    std::function<void()> on_decided;
    // An open service has begun another start; on the control queue's thread.
    std::function<void(const std::string& id)> on_again;
    bool has_autos = true;             // false: of open services alone
    LearntPrograms* learnt = nullptr;  // nullptr: no start is guessed
    Guard* guard = nullptr;            // there if learnt is
  };

  explicit AutoServices(Parts parts) : parts_(std::move(parts)) {}

  // `owner` has the event's reader: the mount itself (a stranger), an open service or a guessed
  // one. Returns true while the start that the event belongs to is being decided; ask again then.
  bool Takes(const Event& event, uint64_t file_bytes, const std::string& path,
             const Service& owner);
  // A process has begun to run a program.
  void Guess(const Exec& exec);
  // Between two events: begins to decide.
  void Decide();
  // Now and then, and when a told service has started: ends automatic services whose programs have
  // ended or belong to a told service now.
  void EndGone();

 private:
  using Root = Membership::Root;
  struct Reader {
    int pid = 0;
    uint64_t start_ns = 0;
    std::string path;   // of the file that it missed, below the directory
    std::string owner;  // an open or guessed service's ID; "": it is a stranger
    bool is_of_guess = false;
  };
  struct Identity {
    Program program;
    std::string id;
    bool has_cgroup = false;  // of its own, that can pay
    Executable file;          // what may be learnt
  };
  // An automatic service, or the present start of an open one.
  struct Start {
    std::vector<Root> programs;
    int group = 0;
    bool is_started = false;  // an automatic service: until then its readers wait
    std::vector<Reader> waiting;
    LearntProgram learnt;  // what it is, if it loads
    bool is_learnt = false;
    bool is_guess = false;
    uint64_t guess_until_ns = 0;
  };
  using Starts = std::map<std::string, Start>;  // by the service's ID
  // Files of one directory that a process has missed, one after the other.
  struct DirectoryMisses {
    uint64_t start_ns = 0;
    std::string directory;  // with its slash
    std::vector<uint64_t> files;
    uint64_t bytes = 0;
  };
  struct Question {
    uint64_t start_ns = 0;
    bool is_decided = false;
    bool is_of_guess = false;
  };

  bool MissesManyFiles(const Event& event, uint64_t file_bytes, const std::string& path);
  static std::optional<Identity> Identify(const SysRoots& roots, Backend* backend,
                                          const Reader& reader, bool learns);
  // "auto-1234", "auto-1234.2" and so on.
  static bool IsOfFamily(const std::string& id, const std::string& family) {
    return id.starts_with(family) && (id.size() == family.size() || id[family.size()] == '.');
  }
  static bool HasOne(const std::vector<Root>& roots, const Root& wanted) {
    return std::ranges::find(roots, wanted) != roots.end();
  }
  static void FindPayer(const SysRoots& roots, Identity* identity);
  bool WithEnded(Starts* starts, const std::string& family, std::function<void()> then);
  void PlaceAuto(const Reader& reader, const Identity& identity);
  void PlaceOpen(const Reader& reader, const Identity& identity);
  void Place(const Reader& reader, const Identity& identity);
  void PlaceGuess(const Reader& reader, const Identity& identity);
  void BeginGuess(const Identity& identity);
  bool HasStartOf(const Identity& identity) const;
  std::string FreeId(const std::string& family) const;
  // guess: of a start that no reader has shown yet.
  void Begin(const Reader& reader, const Identity& identity, const std::string& id,
             const LearntProgram* guess = nullptr);
  void Learn(const std::string& id, Start* start);
  void NoteEnd(const std::string& id, Start* start);
  void EndLateGuesses();
  LearntProgram ToLearn(const Reader& reader, const Identity& identity) const;
  uint64_t SinceStart(const Root& root) const;
  void Started(const std::string& id, bool is_started);
  void BeginAgain(const Reader& reader, const Identity& identity);
  void Decided(const Reader& reader);
  void End(Starts* starts, const std::string& id);

  // Without a read of its model; twice as long as the last start took to its first one.
  static constexpr uint64_t kLeastGuessNs = 60'000'000'000;
  static constexpr uint64_t kMostGuessNs = 600'000'000'000;
  static constexpr size_t kMaxServices = 64;
  static constexpr size_t kMaxProcesses = 4096;
  static constexpr size_t kMaxPrograms = 256;

  const Parts parts_;
  std::unordered_map<int, Question> questions_;
  std::unordered_map<int, DirectoryMisses> directory_misses_;
  std::vector<Reader> wanted_;
  Starts live_;
  Starts open_;
};

}  // namespace ppc

#endif  // PPC_DAEMON_EXEC_AUTO_SERVICES_H_
