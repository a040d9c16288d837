// SPDX-License-Identifier: Apache-2.0
// Owns how much of a read limit (io.max of a cgroup, for a device) each runner keeps to.  Each
// runner alone would load at the whole limit; so where there are several, each has a share, and the
// shares together are the limit.
//
// With each question about memory a runner is told its shares, and says in its answer which limits
// it knows and what it reads.  A runner that needs less leaves it to the others (FairShares), but
// for a little to begin with: a runner that meets a limit it has been told nothing about takes a
// small part of it until it has, and that part is kept free of it.  A share grows only into what
// others have said they have given back.  A runner that is mute keeps its share, one that ends
// leaves it, and so does one that is stopped by a signal, until it is asked again. Threads: the
// loop's.
#ifndef PPC_DAEMON_SUPERVISOR_READ_BROKER_H_
#define PPC_DAEMON_SUPERVISOR_READ_BROKER_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "daemon/base/json.h"

namespace ppc::control {

// A cgroup's directory, and the device that the limit is for.
struct ReadLimitId {
  uint64_t cgroup = 0;
  uint32_t major = 0;
  uint32_t minor = 0;
  auto operator<=>(const ReadLimitId&) const = default;
};

// What a runner says of one; bytes a second.
struct ReadReport {
  ReadLimitId id;
  uint64_t limit = 0;
  uint64_t used = 0;
  bool is_short = false;  // it would read more
};

struct ReadShare {
  ReadLimitId id;
  uint64_t rate = 0;  // bytes a second
};

// What a runner is told.
struct ReadShares {
  uint64_t runners = 1;           // of a limit that is not listed it takes UnlistedRate
  std::vector<ReadShare> listed;  // none where it is alone
};

class ReadBroker {
 public:
  // One runner's; it ends with it.  The broker must outlive it.
  class Client {
   public:
    Client(ReadBroker& broker, uint64_t id) : broker_(broker), id_(id) {}
    ~Client() { broker_.members_.erase(id_); }
    Client(const Client&) = delete;
    Client& operator=(const Client&) = delete;

    // What it is to be told now.
    ReadShares TakeShares();
    // Its answer; true: something of it has changed, or is about to.
    bool TakeReports(const std::vector<ReadReport>& reports);
    // It is stopped: it reads nothing.
    void Stopped() { broker_.members_.at(id_).is_stopped = true; }

   private:
    ReadBroker& broker_;
    const uint64_t id_;
  };

  ReadBroker() = default;
  ~ReadBroker() = default;
  ReadBroker(const ReadBroker&) = delete;
  ReadBroker& operator=(const ReadBroker&) = delete;

  std::unique_ptr<Client> Enter();
  static uint64_t UnlistedRate(uint64_t limit, uint64_t runners);

 private:
  struct Member {
    std::map<ReadLimitId, ReadReport> reports;
    // What it may go by: what it was told last, and what before that until it has answered.
    ReadShares told;
    std::optional<ReadShares> before;
    bool is_stopped = false;

    uint64_t Held(const ReadLimitId& id, uint64_t limit) const;
  };

  uint64_t ShareOf(const Member& member, const ReadReport& report) const;

  std::map<uint64_t, Member> members_;
  uint64_t next_id_ = 1;
};

// As members of the question and of its answer.
Json ReadSharesJson(const ReadShares& shares);
// Nothing where that is no list of reports.
std::optional<std::vector<ReadReport>> ReadReportsOf(const Json& answer);

}  // namespace ppc::control

#endif  // PPC_DAEMON_SUPERVISOR_READ_BROKER_H_
