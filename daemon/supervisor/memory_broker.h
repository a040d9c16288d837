// SPDX-License-Identifier: Apache-2.0
// Owns how much of the machine's memory each runner may keep page cache in.  Each runner alone
// takes the clean cache of the others for free memory; so where there are several, each has a
// share, and the shares together are what one alone would have.
//
// A few times a second each runner is told its share and says in its answer what it keeps and could
// use.  A runner that needs less leaves it to the others (FairShares).  A smaller share counts when
// it has been answered, and what is kept beyond it when it has been given back; only then does
// another grow. So the sum holds at any time, however late an answer is: a runner that is stopped
// or mute keeps what it was told, one that ends leaves it.  A runner that says it keeps more than
// there is page cache is not believed; at worst it keeps the others from growing. Threads: the
// loop's.
#ifndef PPC_DAEMON_SUPERVISOR_MEMORY_BROKER_H_
#define PPC_DAEMON_SUPERVISOR_MEMORY_BROKER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "daemon/supervisor/event_loop.h"

namespace ppc::control {

// Owns the arithmetic of dividing memory among those who need it.
//
// Bytes.
struct MemoryNeed {
  uint64_t wants = 0;  // what it has a use for
  uint64_t most = 0;   // what it could take at all
};

// One share per need, `total` bytes together at most.  The smallest needs are met first and those
// that are larger than an equal part get the same (max-min fairness); what no runner needs is dealt
// out in equal parts.  The same needs in the same order have the same shares.
std::vector<uint64_t> FairShares(uint64_t total, std::span<const MemoryNeed> needs);

// What a runner says; bytes.
struct MemoryReport {
  uint64_t budget = 0;  // page cache that it could keep if it were alone on the machine
  uint64_t keeps = 0;
  uint64_t wants = 0;      // to keep, what it keeps included
  bool is_moving = false;  // something else of it changes, which is asked with this
  bool operator==(const MemoryReport&) const = default;
};

class MemoryBroker {
 public:
  struct Machine {
    uint64_t available = 0;  // free memory and clean page cache
    uint64_t files = 0;      // page cache of files
  };
  using MachineReader = std::function<std::optional<Machine>()>;
  using AnswerHandler = std::function<void(std::optional<MemoryReport>)>;
  // Tells a runner its share (nothing: as much as it likes).  The handler is called once, from the
  // loop or at once, with nothing if there is no answer.
  using Asker = std::function<void(std::optional<uint64_t> share, AnswerHandler)>;

  // One runner's; it ends with it.  The broker must outlive it.
  class Client {
   public:
    explicit Client(MemoryBroker& broker, uint64_t id) : broker_(broker), id_(id) {}
    ~Client() { broker_.Leave(id_); }
    Client(const Client&) = delete;
    Client& operator=(const Client&) = delete;

    // What it may keep until it is asked.
    std::optional<uint64_t> FirstShare() const;
    // It is ready to be asked.
    void Begin(Asker asker);

   private:
    MemoryBroker& broker_;
    const uint64_t id_;
  };

  MemoryBroker(EventLoop& loop, Millis period, MachineReader machine)
      : loop_(loop), period_(period), machine_(std::move(machine)) {}
  ~MemoryBroker() { loop_.Cancel(timer_); }
  MemoryBroker(const MemoryBroker&) = delete;
  MemoryBroker& operator=(const MemoryBroker&) = delete;

  std::unique_ptr<Client> Enter();

 private:
  static constexpr uint64_t kAll = ~uint64_t{0};
  static constexpr int kQuietPeriods = 5;  // between rounds while nothing changes
  static constexpr int kMuteRounds = 25;   // left out after a question without an answer

  struct Member {
    uint64_t id = 0;
    Asker asker;  // null: not ready
    std::optional<MemoryReport> report;
    uint64_t told = 0;  // its share, kAll: as much as it likes
    uint64_t held = 0;  // the largest that it may go by still
    bool is_asked = false;
    bool has_heard = true;  // has answered what it was told last
    int rounds_left_out = 0;
  };

  Member* Find(uint64_t id);
  void Leave(uint64_t id);
  void Round();
  void RoundAfter(Millis delay);
  void AskOne(Member* member, uint64_t share);
  void TakeAnswer(uint64_t id, uint64_t share, const std::optional<MemoryReport>& report);
  // What each should be told now.
  std::vector<uint64_t> Shares() const;
  std::vector<uint64_t> Claims(uint64_t total, const std::vector<uint64_t>& fair,
                               const std::optional<Machine>& machine) const;

  EventLoop& loop_;
  const Millis period_;
  const MachineReader machine_;
  std::vector<Member> members_;  // in the order in which they came
  uint64_t next_id_ = 1;
  EventLoop::TimerId timer_{};
  bool is_quiet_ = true;   // in this round nothing was new
  bool is_early_ = false;  // this round was not waited for
};

}  // namespace ppc::control

#endif  // PPC_DAEMON_SUPERVISOR_MEMORY_BROKER_H_
