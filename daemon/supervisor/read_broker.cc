// SPDX-License-Identifier: Apache-2.0
#include "daemon/supervisor/read_broker.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "daemon/supervisor/memory_broker.h"

namespace ppc::control {
namespace {

constexpr uint64_t kBeginShare = 16;  // of a limit, what is kept for those who begin
constexpr size_t kMostReports = 256;

uint64_t RateOf(const ReadShares& shares, const ReadLimitId& id, uint64_t limit) {
  const auto listed = std::ranges::find(shares.listed, id, &ReadShare::id);
  return listed != shares.listed.end() ? listed->rate
                                       : ReadBroker::UnlistedRate(limit, shares.runners);
}

std::optional<ReadReport> ReportOf(const Json& json) {
  const std::optional<uint64_t> cgroup = JsonNumber(json, "cgroup");
  const std::optional<uint64_t> major = JsonNumber(json, "major");
  const std::optional<uint64_t> minor = JsonNumber(json, "minor");
  const std::optional<uint64_t> limit = JsonNumber(json, "limit");
  const std::optional<uint64_t> used = JsonNumber(json, "used");
  const Json& is_short = JsonMember(json, "short");
  if (!cgroup || !major || !minor || !limit || !used || !is_short.is_boolean()) return std::nullopt;
  return ReadReport{{*cgroup, static_cast<uint32_t>(*major), static_cast<uint32_t>(*minor)},
                    *limit,
                    *used,
                    is_short.get<bool>()};
}

}  // namespace

uint64_t ReadBroker::UnlistedRate(uint64_t limit, uint64_t runners) {
  return runners <= 1 ? limit : std::max<uint64_t>(limit / kBeginShare / runners, 1);
}

std::unique_ptr<ReadBroker::Client> ReadBroker::Enter() {
  const uint64_t id = next_id_++;
  Member& member = members_[id];
  member.told.runners = members_.size();
  return std::make_unique<Client>(*this, id);
}

uint64_t ReadBroker::Member::Held(const ReadLimitId& id, uint64_t limit) const {
  if (is_stopped) return 0;
  const uint64_t now = RateOf(told, id, limit);
  return before ? std::max(now, RateOf(*before, id, limit)) : now;
}

uint64_t ReadBroker::ShareOf(const Member& member, const ReadReport& report) const {
  uint64_t limit = report.limit;
  for (const auto& [unused, one] : members_) {
    const auto known = one.reports.find(report.id);
    if (known != one.reports.end()) limit = std::min(limit, known->second.limit);
  }
  uint64_t total = limit;
  uint64_t held = 0;  // by the others
  std::vector<MemoryNeed> needs;
  size_t mine = 0;
  for (const auto& [unused, one] : members_) {
    if (&one != &member) held += one.Held(report.id, limit);
    const auto known = one.reports.find(report.id);
    if (one.is_stopped) continue;
    if (known == one.reports.end()) {
      // It may meet this limit at any time.
      total -= std::min(total, UnlistedRate(limit, members_.size()));
      continue;
    }
    const ReadReport& its = known->second;
    const uint64_t wants =
        its.is_short ? limit : std::max(its.used + its.used / 4, limit / kBeginShare);
    if (&one == &member) mine = needs.size();
    needs.push_back({wants, limit});
  }
  const uint64_t fair = FairShares(total, needs)[mine];
  const uint64_t now = RateOf(member.told, report.id, limit);
  const uint64_t free = limit > held ? limit - held : 0;
  return fair > now ? std::min(fair, std::max(free, now)) : fair;
}

ReadShares ReadBroker::Client::TakeShares() {
  Member& member = broker_.members_.at(id_);
  member.is_stopped = false;
  ReadShares shares;
  shares.runners = broker_.members_.size();
  for (const auto& [id, report] : member.reports) {
    if (shares.runners > 1) shares.listed.push_back({id, broker_.ShareOf(member, report)});
  }
  // Not answered yet: it may go by either, and by what was before.
  if (!member.before) member.before = member.told;
  for (ReadShare& old : member.before->listed)
    old.rate = std::max(old.rate, RateOf(member.told, old.id, old.rate));
  member.told = shares;
  return shares;
}

bool ReadBroker::Client::TakeReports(const std::vector<ReadReport>& reports) {
  Member& member = broker_.members_.at(id_);
  member.before.reset();
  std::map<ReadLimitId, ReadReport> fresh;
  for (const ReadReport& report : reports) {
    if (report.limit > 0 && fresh.size() < kMostReports) fresh[report.id] = report;
  }
  const bool is_moving =
      fresh.size() != member.reports.size() || std::ranges::any_of(fresh, [&](const auto& entry) {
        return entry.second.is_short || entry.second.used > 0 ||
               !member.reports.contains(entry.first);
      });
  member.reports = std::move(fresh);
  return is_moving;
}

Json ReadSharesJson(const ReadShares& shares) {
  Json listed = Json::array();
  for (const ReadShare& share : shares.listed) {
    listed.push_back({{"cgroup", share.id.cgroup},
                      {"major", share.id.major},
                      {"minor", share.id.minor},
                      {"rate", share.rate}});
  }
  return Json{{"runners", shares.runners}, {"limits", std::move(listed)}};
}

std::optional<std::vector<ReadReport>> ReadReportsOf(const Json& answer) {
  const auto list = answer.find("reads");
  if (list == answer.end() || !list->is_array()) return std::nullopt;
  std::vector<ReadReport> reports;
  for (const Json& one : *list) {
    const std::optional<ReadReport> report = ReportOf(one);
    if (!report) return std::nullopt;
    reports.push_back(*report);
  }
  return reports;
}

}  // namespace ppc::control
