// SPDX-License-Identifier: Apache-2.0
// Kills captures at any system call, and checks the order in which they make things durable.
// PPC_ARTIFACT_KILLS: number of kills; PPC_ARTIFACT_SEED: seed of their places.
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cstdlib>
#include <functional>
#include <map>
#include <random>

#include "extras/artifact/tests/fixture.h"
#include "tests/unit/child.h"

namespace ppc::artifact {
namespace {

// Called at each stop of a child, before and after a system call: false = kill it now.
using AtStop = std::function<bool(pid_t child, uint64_t stop)>;

// The system call that a child is about to make; -1: it returns from one.
long CallOf(pid_t child) {
  __ptrace_syscall_info info{};
  const bool is_entry = ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof(info), &info) > 0 &&
                        info.op == PTRACE_SYSCALL_INFO_ENTRY;
  return is_entry ? static_cast<long>(info.entry.nr) : -1;
}

// Calls that change names or sync them: the state differs before and after.
bool IsOfNames(long call) {
  return call == SYS_renameat || call == SYS_renameat2 || call == SYS_linkat ||
         call == SYS_unlinkat || call == SYS_mkdirat || call == SYS_syncfs || call == SYS_fsync;
}

class CrashTest : public ArtifactTest {
 protected:
  // Kills at a random stop or at a call on names, equally likely; lets every fifth child finish,
  // which counts the stops.
  class Killer {
   public:
    explicit Killer(unsigned seed) : random_(seed) {}

    AtStop Next() {
      last_stop_ = std::max(last_stop_, stop_);
      last_name_ = std::max(last_name_, name_);
      stop_ = name_ = 0;
      const unsigned round = round_++;
      const uint64_t at_stop = round % 5 != 0 && round % 2 != 0 ? random_() % last_stop_ + 1 : 0;
      const uint64_t at_name = round % 5 != 0 && round % 2 == 0 ? random_() % last_name_ + 1 : 0;
      return [this, at_stop, at_name](pid_t child, uint64_t) {
        name_ += IsOfNames(CallOf(child)) ? 1 : 0;
        return ++stop_ != at_stop && (name_ != at_name || at_name == 0);
      };
    }
    std::string Where() const {
      return "stop " + std::to_string(stop_) + " of " + std::to_string(last_stop_) + ", name " +
             std::to_string(name_) + " of " + std::to_string(last_name_);
    }

   private:
    std::mt19937 random_;
    unsigned round_ = 0;
    uint64_t stop_ = 0;
    uint64_t name_ = 0;
    uint64_t last_stop_ = 0;
    uint64_t last_name_ = 0;
  };

  // Runs `body` in a child; returns the number of stops, and whether it finished.
  struct Run {
    uint64_t stops = 0;
    bool has_ended = false;
    int exit_status = -1;
  };
  Run Traced(const std::function<int()>& body, const AtStop& at_stop) {
    const pid_t child = StartChild([&body] {
      ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
      raise(SIGSTOP);
      return body();
    });
    Run run;
    int status = 0;
    waitpid(child, &status, 0);
    ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_EXITKILL | PTRACE_O_TRACESYSGOOD);
    while (true) {
      ptrace(PTRACE_SYSCALL, child, nullptr, nullptr);
      if (waitpid(child, &status, 0) != child) break;
      if (WIFEXITED(status) || WIFSIGNALED(status)) {
        run.has_ended = WIFEXITED(status);
        run.exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
        break;
      }
      if (!WIFSTOPPED(status) || WSTOPSIG(status) != (SIGTRAP | 0x80)) continue;
      if (!at_stop(child, run.stops++)) kill(child, SIGKILL);
    }
    return run;
  }

  // Encodes the calls of a finished capture: w(rite), r(ename), f(sync), S(yncfs); repeated ones
  // once.
  std::string OrderOfACapture() {
    std::string order;
    const auto note = [&order](pid_t child, uint64_t) {
      const long call = CallOf(child);
      const char letter = call == SYS_write                               ? 'w'
                          : call == SYS_syncfs                            ? 'S'
                          : call == SYS_renameat || call == SYS_renameat2 ? 'r'
                          : call == SYS_fsync || call == SYS_fdatasync    ? 'f'
                                                                          : 0;
      if (letter != 0 && (order.empty() || order.back() != letter)) order += letter;
      return true;
    };
    const Run run = Traced([this] { return TryCapture(Compress::kAlways) ? 0 : 1; }, note);
    EXPECT_EQ(run.exit_status, 0);
    return order;
  }

  // Checks what the next start finds: every listed bundle is complete.
  void ExpectAllWhole() {
    const Store store = Open();
    const std::vector<BundleName> names = Value(store.List());
    for (const BundleName& name : names) {
      const Manifest manifest = Value(store.Load(name));
      for (const Entry& entry : manifest.entries) {
        if (entry.kind != Kind::kFile) continue;
        ASSERT_TRUE(IsOk(ReadObject(store, entry, -1)));
      }
    }
  }

  // An engine's next state: some files new, some changed, some removed.
  void NextState(unsigned round) {
    const std::string directory = "/engine/triton/r" + std::to_string(round % 3);
    fs::remove_all(tree_.Path(directory));
    for (unsigned i = 0; i < 8; ++i) {
      tree_.Write(directory + "/k" + std::to_string(i), Text(2000 + 500 * i, round * 8 + i));
    }
    tree_.Write("/engine/vllm/plan.json", std::to_string(round));
    tree_.Link("/engine/vllm/l" + std::to_string(round), "plan.json");
  }

  static unsigned Number(const char* name, unsigned fallback) {
    const char* text = std::getenv(name);
    return text == nullptr ? fallback : static_cast<unsigned>(std::strtoul(text, nullptr, 10));
  }
};

TEST_F(CrashTest, KilledCapturesNeverLeaveATornBundle) {
  const unsigned kills = Number("PPC_ARTIFACT_KILLS", 40);
  Killer killer(Number("PPC_ARTIFACT_SEED", 1));
  const auto capture = [this] { return TryCapture(Compress::kAlways) ? 0 : 1; };
  unsigned killed = 0;
  for (unsigned round = 0; killed < kills; ++round) {
    ASSERT_LT(round, 3 * kills + 10) << "captures end before they are killed";
    NextState(round);
    const Run run = Traced(capture, killer.Next());
    killed += run.has_ended ? 0 : 1;
    if (run.has_ended) {
      ASSERT_EQ(run.exit_status, 0);
    }
    ASSERT_NO_FATAL_FAILURE(ExpectAllWhole()) << "killed at " << killer.Where();
    // The store still works, and a sweep removes unfinished files.
    if (round % 10 == 0) {
      ASSERT_TRUE(IsOk(TryCapture()));
      ASSERT_TRUE(Open().Sweep());
      EXPECT_EQ(FilesBelow(OwnStore() + "/staging"), 0U);
      const std::string before = Picture();
      Empty();
      MustRestore();
      ASSERT_EQ(Picture(), before);
    }
  }
}

TEST_F(CrashTest, KilledRestoresAreCompletedByTheNext) {
  NextState(0);
  NextState(1);
  MustCapture();
  const std::string before = Picture();
  Killer killer(Number("PPC_ARTIFACT_SEED", 1));
  const auto restore = [this] { return TryRestore() ? 0 : 1; };
  const unsigned kills = Number("PPC_ARTIFACT_KILLS", 20);
  for (unsigned round = 0; round < kills; ++round) {
    Empty();
    Traced(restore, killer.Next());
    // Every visible file is complete.
    for (const auto& entry : fs::recursive_directory_iterator(tree_.Path("/engine"))) {
      const std::string path = entry.path().string();
      if (!entry.is_regular_file() || path.find(".ppc-restore.") != std::string::npos) continue;
      ASSERT_NE(before.find(std::to_string(std::hash<std::string>()(TextAt(path)))),
                std::string::npos)
          << path << " is torn, killed at " << killer.Where();
    }
    MustRestore();
    ASSERT_EQ(FilesBelow(tree_.Path("/engine")), 19U);
    for (const Root& root : roots_) {
      for (const auto& entry : fs::directory_iterator(root.directory)) {
        ASSERT_FALSE(entry.path().filename().string().starts_with(".ppc-restore."));
      }
    }
  }
}

// Against power cuts: data is synced before it gets a name, and all objects are named before the
// list.
TEST_F(CrashTest, NamesComeAfterTheBytesTheyStandFor) {
  NextState(0);
  // The key; objects written, synced, named, synced; the list written, synced, named, its
  // directories synced.
  EXPECT_EQ(OrderOfACapture(), "wfwfrfwfrf") << "and not all that others write: no S";
}

// The capture that named them may not have synced the names yet.
TEST_F(CrashTest, NamesThatAreFoundAreSyncedBeforeTheList) {
  NextState(0);
  MustCapture(Compress::kAlways);
  key_["driver"] = "another";
  // Objects written and discarded; existing names synced; the list.
  EXPECT_EQ(OrderOfACapture(), "wfwfrf");
}

}  // namespace
}  // namespace ppc::artifact
