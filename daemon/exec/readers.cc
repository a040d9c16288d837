// SPDX-License-Identifier: Apache-2.0
#include "daemon/exec/readers.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "daemon/machine/cgroup.h"
#include "daemon/machine/proc_info.h"

namespace ppc {
namespace {

// The group or the user that pays for what its processes do here.
std::string TenantOf(const SysRoots& roots, int pid) {
  const std::string group = TenantGroup(ProcessCgroup(roots, pid).value_or(""));
  return group.empty() ? "user " + std::to_string(ProcessUid(roots, pid).value_or(0)) : group;
}

}  // namespace

std::optional<Reader> Readers::LookUp(const Members& members, const Question& question,
                                      Hints* hints) {
  const auto [pid, start_ns, cgroup_id, now_ns, service] = question;
  Candidates candidates;
  if (service) {
    const auto is_it = [&](const Members::Entry& one) {
      return static_cast<int>(one.number) == *service;
    };
    const auto known = std::find_if(members.services.begin(), members.services.end(), is_it);
    if (known != members.services.end()) candidates.owner = &*known;
  } else {
    candidates = CandidatesOf(roots_, members, pid, start_ns, cgroup_id);
  }
  const auto number_of = [](const Members::Entry* one) {
    return one != nullptr ? static_cast<int>(one->number) : Reader::kStranger;
  };
  hints->services.push_back(number_of(candidates.owner));
  for (const Members::Entry* const named : candidates.named)
    hints->services.push_back(number_of(named));
  hints->are_told.store(true, std::memory_order_release);
  const auto chain_of = [&members](const Members::Entry* one) {
    return one != nullptr ? one->processes : (members.services.empty() ? members.mount : nullptr);
  };
  const auto answer_of = [&](const Members::Entry* one) {
    const std::shared_ptr<ProcessXpu> chain = chain_of(one);
    return Reader{number_of(one),
                  chain == nullptr ? XpuAnswer() : chain->Find(pid, start_ns, now_ns)};
  };
  const std::shared_ptr<ProcessXpu> chain = chain_of(candidates.owner);
  const bool waits =
      !candidates.named.empty() || (chain != nullptr && chain->ReadsEnvironment(pid, start_ns));
  if (!waits) return answer_of(candidates.owner);
  const HungReads::Read read(&hung_, TenantOf(roots_, pid));
  if (!read.MayRead()) return std::nullopt;
  return answer_of(OwnerAmong(roots_, candidates, pid));
}

void Readers::Use(Offload offload, std::function<void()> on_answer) {
  offload_ = std::move(offload);
  on_answer_ = std::move(on_answer);
}

void Readers::SetMembers(std::shared_ptr<const Members> members) {
  // Both are in the order of numbers.
  std::vector<bool> stays;  // by number: the told services that stay
  auto was = members_->services.begin();
  for (const Members::Entry& one : members->services) {
    while (was != members_->services.end() && was->number < one.number) ++was;
    if (was == members_->services.end()) break;
    if (was->number != one.number || was->processes != one.processes || was->told.is_auto) continue;
    stays.resize(one.number + 1, false);
    stays[one.number] = true;
  }
  for (auto it = entries_.begin(); it != entries_.end();) {
    Entry& entry = it->second;
    const auto service = static_cast<size_t>(entry.reader.service);  // a stranger's is beyond
    entry.is_old = entry.is_known && service < stays.size() && stays[service];
    entry.due_ns = 0;
    it = entry.is_old ? std::next(it) : entries_.erase(it);
  }
  recent_.fill({});
  members_ = std::move(members);
}

void Readers::Learn(const Question& question, const Reader& answer) {
  Entry& entry = entries_[question.pid];
  entry = Entry{.start_ns = question.start_ns,
                .due_ns = DueAfter(answer, question.now_ns),
                .is_known = true,
                .reader = answer};
}

void Readers::Ask(const Question& question) {
  const auto hints = std::make_shared<Hints>();
  entries_[question.pid].hints = hints;
  const auto look = [this, question, hints, members = members_] {
    return LookUp(*members, question, hints.get());
  };
  if (!offload_) return Learn(question, look().value_or(Reader()));
  auto answer = std::make_shared<std::optional<Reader>>();
  const bool is_taken = offload_([look, answer] { *answer = look(); },
                                 [this, question, answer, members = members_] {
                                   // The services have changed meanwhile.
                                   if (members != members_) {
                                     Question again = question;
                                     again.service.reset();
                                     return Ask(again);
                                   }
                                   if (!*answer) return Postpone(question);
                                   Learn(question, **answer);
                                   on_answer_();
                                 });
  // Too much is being looked up already: the next event of the process asks again.
  if (!is_taken) entries_[question.pid].is_asked = false;
}

void Readers::Postpone(const Question& question) {
  const auto entry = entries_.find(question.pid);
  if (entry == entries_.end() || entry->second.start_ns != question.start_ns) return;
  entry->second.is_asked = false;
  entry->second.due_ns = question.now_ns + kLookAgainNs;
}

bool Readers::MayBeOf(int pid, int service) const {
  const auto found = entries_.find(pid);
  if (found == entries_.end()) return true;
  const Entry& entry = found->second;
  if (entry.is_known) return entry.reader.service == service;
  if (entry.hints == nullptr || !entry.hints->are_told.load(std::memory_order_acquire)) return true;
  return std::ranges::find(entry.hints->services, service) != entry.hints->services.end();
}

uint64_t Readers::DueAfter(const Reader& answer, uint64_t now_ns) const {
  const XpuSource source = answer.xpu.source;
  const bool is_sure = source != XpuSource::kUnknown && source <= XpuSource::kDevice;
  const bool is_stranger = answer.service == Reader::kStranger && !members_->services.empty();
  return is_sure || is_stranger ? UINT64_MAX : now_ns + kLookAgainNs;
}

// Many processes: each is looked up again when it reads again.
void Readers::ForgetSome() {
  size_t left = kMaxProcesses / 10;
  std::erase_if(entries_, [&left](const auto& process) {
    const bool goes = left > 0 && !process.second.is_asked;
    left -= goes ? 1 : 0;
    return goes;
  });
  if (left > 0) entries_.clear();  // all are being looked up
  recent_.fill({});
}

Readers::Entry& Readers::LookUpEntry(int pid) {
  if (entries_.size() >= kMaxProcesses && !entries_.contains(pid)) ForgetSome();
  Recent& recent = recent_[static_cast<unsigned>(pid) % kRecent];
  recent = {pid, &entries_[pid]};
  return *recent.entry;
}

const Reader* Readers::Find(int pid, uint64_t start_ns, uint64_t cgroup_id, uint64_t now_ns) {
  Entry& entry = EntryOf(pid);
  if (entry.start_ns != start_ns) entry = Entry{.start_ns = start_ns};
  if (!entry.is_asked && now_ns >= entry.due_ns) {
    entry.is_asked = true;
    Question question{pid, start_ns, cgroup_id, now_ns, std::nullopt};
    if (entry.is_known && !entry.is_old) question.service = entry.reader.service;
    Ask(question);
  }
  return entry.is_known ? &entry.reader : nullptr;
}

}  // namespace ppc
