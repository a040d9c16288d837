// SPDX-License-Identifier: Apache-2.0
// Owns the events that wait until their reader or their file has been looked up.  What a process
// did stays in its order: while one of its events waits, all later ones do.
// Threads: the executor's.
#ifndef PPC_DAEMON_EXEC_HELD_EVENTS_H_
#define PPC_DAEMON_EXEC_HELD_EVENTS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "daemon/backend/backend.h"

namespace ppc {

// When an event came, and when events of unknown processes had been lost before it.
struct Arrival {
  uint64_t came_ns = 0;
  uint64_t lost_ns = 0;  // 0: never
};

class HeldEvents {
 public:
  static constexpr size_t kMax = 32768;
  static constexpr size_t kShare = kMax / 16;  // of a process, where there is no room for all
  static constexpr size_t kAhead = 64;  // files of a process's events that are looked up at once

  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }
  bool Holds(int tgid) const { return size_ != 0 && processes_.contains(tgid); }
  // Whether one of the processes began to wait, or went on, at that time or later.  One that hangs
  // did before.
  template <typename IsOne>
  bool HoldsSince(uint64_t then_ns, IsOne is_one) const {
    return std::ranges::any_of(processes_, [&](const auto& process) {
      return process.second.since_ns >= then_ns && is_one(process.first);
    });
  }
  // Events were lost between those that wait and those that come.
  void MarkLoss(uint64_t now_ns) { lost_ns_ = now_ns; }
  Arrival ArrivalAt(uint64_t now_ns) const { return {now_ns, lost_ns_}; }
  // ask(event) is called once for each of the events that come next.  Returns the process of which
  // an event is lost for want of room: not this one, while another holds more than its share.
  template <typename Ask>
  std::optional<int> Add(const Event& event, uint64_t now_ns, Ask ask) {
    std::optional<int> loser;
    if (size_ >= kMax) {
      const auto known = processes_.find(event.tgid);
      const bool is_large = known != processes_.end() && known->second.Size() >= kShare;
      loser = is_large ? event.tgid : LargestOr(event.tgid);
      if (*loser == event.tgid) return loser;
      DropLast(*loser);
    }
    Process& process = processes_[event.tgid];
    if (process.events.empty()) process.since_ns = now_ns;
    process.events.push_back({++last_, event, ArrivalAt(now_ns)});
    ++size_;
    if (process.Size() == kShare + 1) ++above_share_;
    process.AskAhead(ask);
    return loser;
  }
  // Gives each to take(event, arrival), in the order in which they came; of a process whose event
  // it did not take the later ones are not given.  take() must not call Add.
  template <typename Take, typename Ask>
  void Release(uint64_t now_ns, Take take, Ask ask) {
    next_.clear();
    for (const auto& [tgid, process] : processes_) next_.emplace_back(process.Front().number, tgid);
    std::ranges::make_heap(next_, std::greater());
    while (!next_.empty()) {
      std::ranges::pop_heap(next_, std::greater());
      const int tgid = next_.back().second;
      next_.pop_back();
      const auto found = processes_.find(tgid);
      Process& process = found->second;
      if (!take(process.Front().event, process.Front().arrival)) {
        process.AskAhead(ask);
        continue;
      }
      --size_;
      if (process.Size() == kShare + 1) --above_share_;
      ++process.first;
      process.since_ns = now_ns;
      if (process.first == process.events.size()) {
        processes_.erase(found);
        continue;
      }
      process.Shrink();
      next_.emplace_back(process.Front().number, tgid);
      std::ranges::push_heap(next_, std::greater());
    }
  }

 private:
  struct Held {
    uint64_t number = 0;
    Event event;
    Arrival arrival;
  };
  struct Process {
    std::vector<Held> events;
    size_t first = 0;  // not released yet
    size_t asked = 0;  // those before it were asked for
    uint64_t since_ns = 0;

    const Held& Front() const { return events[first]; }
    size_t Size() const { return events.size() - first; }
    template <typename Ask>
    void AskAhead(Ask ask) {
      asked = std::max(asked, first);
      while (asked < std::min(events.size(), first + kAhead)) ask(events[asked++].event);
    }
    void Shrink() {
      if (first < kAhead || first < events.size() / 2) return;
      events.erase(events.begin(), events.begin() + static_cast<std::ptrdiff_t>(first));
      asked -= std::min(asked, first);
      first = 0;
    }
  };

  // The process that holds more than its share, `otherwise` where none does.
  int LargestOr(int otherwise) {
    const auto known = processes_.find(large_);
    if (known != processes_.end() && known->second.Size() > kShare) return large_;
    if (above_share_ == 0) return otherwise;
    const auto by_size = [](const auto& a, const auto& b) {
      return a.second.Size() < b.second.Size();
    };
    return large_ = std::ranges::max_element(processes_, by_size)->first;
  }
  void DropLast(int tgid) {
    Process& process = processes_.at(tgid);
    if (process.Size() == kShare + 1) --above_share_;
    process.events.pop_back();
    process.asked = std::min(process.asked, process.events.size());
    --size_;
  }

  std::unordered_map<int, Process> processes_;
  size_t above_share_ = 0;                      // processes with more
  int large_ = -1;                              // was the largest when looked for last
  std::vector<std::pair<uint64_t, int>> next_;  // a heap of the processes' next events
  size_t size_ = 0;
  uint64_t last_ = 0;  // number
  uint64_t lost_ns_ = 0;
};

}  // namespace ppc

#endif  // PPC_DAEMON_EXEC_HELD_EVENTS_H_
