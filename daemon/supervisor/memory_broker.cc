// SPDX-License-Identifier: Apache-2.0
#include "daemon/supervisor/memory_broker.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace ppc::control {
namespace {

// Adds equal parts of `total` to the shares, to none beyond its bound; returns what is left.
uint64_t Deal(uint64_t total, const std::vector<uint64_t>& bounds, std::vector<uint64_t>* shares) {
  const auto room = [&](size_t i) {
    return bounds[i] > (*shares)[i] ? bounds[i] - (*shares)[i] : 0;
  };
  std::vector<size_t> order(bounds.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, room);
  size_t left = order.size();
  for (const size_t i : order) {
    const uint64_t part = std::min(room(i), total / left--);
    (*shares)[i] += part;
    total -= part;
  }
  return total;
}

}  // namespace

// ------------------------------------------------------------------------ client

std::unique_ptr<MemoryBroker::Client> MemoryBroker::Enter() {
  Member member;
  member.id = next_id_++;
  members_.push_back(std::move(member));
  // The newest has what the others leave.
  const uint64_t share = Shares().back();
  members_.back().told = members_.back().held = share;
  return std::make_unique<Client>(*this, members_.back().id);
}

std::optional<uint64_t> MemoryBroker::Client::FirstShare() const {
  const Member* member = broker_.Find(id_);
  return member == nullptr || member->told == kAll ? std::nullopt : std::optional(member->told);
}

void MemoryBroker::Client::Begin(Asker asker) {
  Member* member = broker_.Find(id_);
  if (member == nullptr) return;
  member->asker = std::move(asker);
  broker_.RoundAfter(Millis(0));
}

MemoryBroker::Member* MemoryBroker::Find(uint64_t id) {
  const auto it = std::ranges::find(members_, id, &Member::id);
  return it == members_.end() ? nullptr : &*it;
}

void MemoryBroker::Leave(uint64_t id) {
  std::erase_if(members_, [id](const Member& member) { return member.id == id; });
  RoundAfter(Millis(0));
}

// ----------------------------------------------------------------------- rounds

void MemoryBroker::RoundAfter(Millis delay) {
  loop_.Cancel(timer_);
  timer_ = loop_.After(delay, [this] { Round(); });
}

void MemoryBroker::Round() {
  const bool was_quiet = std::exchange(is_quiet_, true);
  const std::vector<uint64_t> shares = Shares();
  std::vector<std::pair<uint64_t, uint64_t>> due;  // who, share
  for (size_t i = 0; i < members_.size(); ++i) {
    Member& member = members_[i];
    if (member.rounds_left_out > 0) --member.rounds_left_out;
    if (!member.asker || member.is_asked || member.rounds_left_out > 0) continue;
    // A runner that is alone need not be asked again.
    if (shares[i] == kAll && member.told == kAll && member.has_heard) continue;
    due.emplace_back(member.id, shares[i]);
  }
  const bool is_open = members_.size() > 1 || !due.empty() ||
                       std::ranges::any_of(members_, [](const Member& m) { return !m.has_heard; });
  if (is_open) RoundAfter(was_quiet ? period_ * kQuietPeriods : period_);
  for (const auto& [id, share] : due) {
    if (Member* member = Find(id)) AskOne(member, share);
  }
}

void MemoryBroker::AskOne(Member* member, uint64_t share) {
  member->is_asked = true;
  member->has_heard = false;
  member->told = share;
  member->held = std::max(member->held, share);
  const Asker asker = member->asker;
  asker(share == kAll ? std::nullopt : std::optional(share),
        [this, id = member->id, share](const std::optional<MemoryReport>& report) {
          TakeAnswer(id, share, report);
        });
}

void MemoryBroker::TakeAnswer(uint64_t id, uint64_t share,
                              const std::optional<MemoryReport>& report) {
  Member* member = Find(id);
  if (member == nullptr) return;
  member->is_asked = false;
  if (!report) {
    member->rounds_left_out = kMuteRounds;
    return;
  }
  member->held = share;
  member->has_heard = true;
  const bool is_new = !member->report || member->report->keeps != report->keeps ||
                      member->report->wants != report->wants;
  member->report = report;
  if (is_new || report->is_moving) is_quiet_ = false;
  if (std::ranges::any_of(members_, &Member::is_asked)) return;
  // The last answer of the round: what one left, another gets at once, but not for ever.
  const std::vector<uint64_t> shares = Shares();
  bool has_changed = false;
  for (size_t i = 0; i < members_.size(); ++i) has_changed |= shares[i] != members_[i].told;
  is_early_ = has_changed && !is_early_;
  if (is_early_) {
    RoundAfter(Millis(1));
  } else if (!is_quiet_) {
    RoundAfter(period_);
  }
}

// ----------------------------------------------------------------------- shares

// What each keeps or may keep without asking.  If runners say that they keep more page cache than
// there is, the one furthest beyond its fair share is not believed, and so on.
std::vector<uint64_t> MemoryBroker::Claims(uint64_t total, const std::vector<uint64_t>& fair,
                                           const std::optional<Machine>& machine) const {
  std::vector<uint64_t> keeps;
  uint64_t sum = 0;
  for (const Member& member : members_) {
    // No sum of some 2^10 of these overflows.
    const uint64_t most = machine ? machine->files : total;
    keeps.push_back(member.report ? std::min(member.report->keeps, most) : 0);
    sum += keeps.back();
  }
  uint64_t excess = machine && sum > machine->files ? sum - machine->files : 0;
  const auto beyond = [&](size_t i) { return keeps[i] > fair[i] ? keeps[i] - fair[i] : 0; };
  std::vector<size_t> order(members_.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater<>(), beyond);
  for (const size_t i : order) {
    const uint64_t part = std::min(excess, beyond(i));
    keeps[i] -= part;
    excess -= part;
  }
  std::vector<uint64_t> claims;
  for (size_t i = 0; i < members_.size(); ++i)
    claims.push_back(std::min(std::max(keeps[i], members_[i].held), std::max(total, keeps[i])));
  return claims;
}

std::vector<uint64_t> MemoryBroker::Shares() const {
  if (members_.size() == 1) return {kAll};
  const std::optional<Machine> machine = machine_();
  uint64_t total = 0;
  for (const Member& member : members_)
    total = std::max(total, member.report ? member.report->budget : 0);
  // No runner has answered yet: nothing is to be changed.
  if (std::ranges::none_of(members_, [](const Member& m) { return m.report.has_value(); })) {
    std::vector<uint64_t> told;
    for (const Member& member : members_) told.push_back(member.told);
    return told;
  }
  if (machine) total = std::min(total, machine->available);
  std::vector<MemoryNeed> needs;
  for (const Member& member : members_) {
    const uint64_t budget = member.report ? std::min(member.report->budget, total) : total;
    needs.push_back({member.report ? member.report->wants : total, budget});
  }
  std::vector<uint64_t> shares = FairShares(total, needs);
  const std::vector<uint64_t> claims = Claims(total, shares, machine);
  const uint64_t all = std::accumulate(claims.begin(), claims.end(), uint64_t{0});
  for (size_t i = 0; i < members_.size(); ++i) {
    const uint64_t others = all - claims[i];
    const uint64_t free = total > others ? total - others : 0;
    const uint64_t told = members_[i].told;
    if (shares[i] > told) shares[i] = std::min(shares[i], std::max(free, told));
  }
  return shares;
}

std::vector<uint64_t> FairShares(uint64_t total, std::span<const MemoryNeed> needs) {
  std::vector<uint64_t> wants;
  std::vector<uint64_t> most;
  for (const MemoryNeed& need : needs) {
    wants.push_back(std::min(need.wants, need.most));
    most.push_back(need.most);
  }
  std::vector<uint64_t> shares(needs.size(), 0);
  Deal(Deal(total, wants, &shares), most, &shares);
  return shares;
}

}  // namespace ppc::control
