// SPDX-License-Identifier: Apache-2.0
#include "daemon/exec/service_table.h"

#include <algorithm>
#include <cerrno>
#include <numeric>
#include <optional>
#include <utility>

#include "daemon/machine/proc_info.h"

namespace ppc {
namespace {

constexpr int64_t kMaxWorkers = 4096;

// "xpus" of a message; without it worker w stands for XPU w.
Result<std::vector<int>> XpusOf(const Json& message) {
  std::vector<int> xpus;
  const auto list = message.find("xpus");
  if (list != message.end() && !list->is_null()) {
    if (!list->is_array()) return Error{EINVAL, "\"xpus\" must be an array of XPU numbers"};
    for (const Json& xpu : *list) {
      if (!xpu.is_number_integer() || xpu.get<int64_t>() < 0 || xpu.get<int64_t>() >= kMaxWorkers) {
        return Error{EINVAL, "\"xpus\" must be an array of XPU numbers"};
      }
      xpus.push_back(static_cast<int>(xpu.get<int64_t>()));
    }
  }
  const Result<int64_t> workers = JsonInt(message, "workers", 0);
  if (!workers) return workers.error();
  if (*workers < 0 || *workers > kMaxWorkers) {
    return Error{EINVAL, "\"workers\" must be 0 to " + std::to_string(kMaxWorkers)};
  }
  if (xpus.empty()) {
    xpus.resize(static_cast<size_t>(*workers));
    std::iota(xpus.begin(), xpus.end(), 0);
  }
  return xpus;
}

}  // namespace

ServiceTable::ServiceTable(Backend* backend, const Topology* topology, SysRoots roots,
                           MemoryFactory memory, const VendorXpus* vendors)
    : backend_(backend),
      topology_(topology),
      roots_(std::move(roots)),
      memory_(std::move(memory)),
      vendors_(vendors) {
  default_ = Make("", nullptr);
  ListActive();
}

std::unique_ptr<Service> ServiceTable::Make(const std::string& id,
                                            std::shared_ptr<const Cgroup> cgroup) {
  auto service = std::make_unique<Service>();
  service->id = id;
  service->cgroup = std::move(cgroup);
  service->payer = std::make_shared<Payer>();
  service->payer->budget = std::make_shared<Budget>(memory_(service->cgroup));
  if (service->cgroup == nullptr) return service;
  service->payer->rate = std::make_shared<ReadRate>(
      std::make_unique<IoLimit>(roots_, service->cgroup->path()), &buckets_);
  std::erase_if(charges_, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<const ChargeHandle>& known = charges_[service->cgroup->id()];
  service->payer->charge = known.lock();
  if (service->payer->charge != nullptr) return service;
  const Result<uint32_t> handle = backend_->Charge(service->cgroup->fd());
  if (handle) {
    known = service->payer->charge = std::make_shared<const ChargeHandle>(backend_, *handle);
  } else {
    service->note = "loads are charged to the runner's cgroup: " + handle.error().message;
  }
  return service;
}

Status ServiceTable::OpenDefault(const std::string& cgroup) {
  if (cgroup.empty()) return Ok();
  Result<Cgroup> opened = Cgroup::Open(cgroup, roots_);
  if (!opened) return opened.error();
  default_ = Make("", std::make_shared<Cgroup>(std::move(*opened)));
  ListActive();
  return Ok();
}

Result<Service*> ServiceTable::Start(const Json& message) {
  Result<std::string> id = JsonString(message, "service_id", "");
  if (!id) return id.error();
  if (id->empty()) return Error{EINVAL, "service_start needs \"service_id\""};
  const Result<std::string> path = JsonString(message, "cgroup", "");
  if (!path) return path.error();
  Result<std::vector<int>> xpus = XpusOf(message);
  if (!xpus) return xpus.error();
  std::shared_ptr<const Cgroup> cgroup;
  if (!path->empty()) {
    Result<Cgroup> opened = Cgroup::Open(*path, roots_);
    if (!opened) return opened.error();
    cgroup = std::make_shared<Cgroup>(std::move(*opened));
  }
  Result<Membership> told = MembershipOf(message, cgroup, roots_);
  if (!told) return told.error();
  Service* const before = Find(*id);
  uint32_t number = before != nullptr ? before->number : 0;
  if (before == nullptr) {
    const auto free = std::find(services_.begin(), services_.end(), nullptr);
    number = static_cast<uint32_t>(free - services_.begin());
    if (number >= kMaxServices) return Error{ENOSPC, "too many services on one mount"};
    if (free == services_.end()) services_.emplace_back();
  }
  std::unique_ptr<Service> service = Make(*id, std::move(cgroup));
  service->number = service->payer->service = number;
  service->processes = std::make_unique<ProcessXpu>(roots_, *xpus, topology_, vendors_);
  service->xpus = std::move(*xpus);
  service->told = std::move(*told);
  processes_.clear();
  services_[number] = std::move(service);
  ListActive();
  return services_[number].get();
}

void ServiceTable::Stop(const std::string& id) {
  Service* service = Find(id);
  if (service == nullptr) return;
  processes_.clear();
  std::erase_if(bound_, [&](const auto& entry) { return entry.second.id == id; });
  services_[service->number].reset();
  ListActive();
}

Service* ServiceTable::Get(uint32_t number) {
  if (number < services_.size() && services_[number] != nullptr) return services_[number].get();
  return default_.get();
}

Service* ServiceTable::Find(const std::string& id) {
  for (const auto& service : services_) {
    if (service != nullptr && service->id == id) return service.get();
  }
  return nullptr;
}

Service* ServiceTable::OfProcess(int pid, uint64_t start_ns, uint64_t cgroup_id) {
  if (services_.empty()) return default_.get();
  const auto it = processes_.find(pid);
  if (it != processes_.end() && it->second.start_ns == start_ns) return it->second.service;
  if (processes_.size() >= kMaxProcesses) processes_.clear();
  const auto bound = bound_.find(pid);
  const bool is_bound = bound != bound_.end() && IsSameStart(bound->second.start_ns, start_ns);
  Service* service = is_bound ? Find(bound->second.id) : nullptr;
  if (service == nullptr) service = OwnerOf(roots_, services_, pid, cgroup_id);
  if (service == nullptr) service = default_.get();
  processes_[pid] = ProcessKey{start_ns, service};
  return service;
}

void ServiceTable::XpuChain(Service* service) {
  if (service->processes != nullptr) return;
  // Without services the machine's own list stands for the workers.
  std::vector<int> all(topology_->xpus.size());
  std::iota(all.begin(), all.end(), 0);
  service->processes = std::make_unique<ProcessXpu>(roots_, std::move(all), topology_, vendors_);
}

XpuAnswer ServiceTable::XpuOf(Service* service, int pid, uint64_t start_ns, uint64_t now_ns) {
  if (service->processes == nullptr) XpuChain(service);
  return service->processes->Find(pid, start_ns, now_ns);
}

namespace {

Json FindingJson(const XpuFinding& finding, const XpuAnswer& winner, const Topology& machine) {
  Json json{{"provider", XpuSourceName(finding.source)},
            {"says", finding.says},
            {"wins", winner.source == finding.source}};
  if (finding.answer.source == XpuSource::kUnknown) return json;
  json["worker"] = finding.answer.worker;
  json["xpu"] = finding.answer.xpu;
  json["node"] = machine.NodeOfXpu(finding.answer.xpu);
  return json;
}

}  // namespace

Result<Json> ServiceTable::ExplainProcess(int pid) {
  const std::optional<uint64_t> start = ProcessStartNs(roots_, pid);
  if (!start) return Error{ESRCH, "process " + std::to_string(pid) + " does not exist here"};
  Service* service = OfProcess(pid, *start, 0);
  XpuChain(service);
  XpuAnswer winner;
  const std::vector<XpuFinding> findings = service->processes->Explain(pid, *start, &winner);
  const bool is_decided = winner.source != XpuSource::kUnknown;
  for (const XpuFinding& finding : findings) {
    if (winner.source == XpuSource::kUnknown) winner = finding.answer;
  }
  Json json{{"pid", pid},
            {"service_id", service->id},
            {"worker", winner.worker},
            {"xpu", winner.xpu},
            {"node", topology_->NodeOfXpu(winner.xpu)},
            {"source", XpuSourceName(winner.source)},
            {"decided", is_decided},
            {"providers", Json::array()}};
  if (winner.xpu >= 0 && static_cast<size_t>(winner.xpu) < topology_->xpus.size()) {
    json["bdf"] = topology_->xpus[static_cast<size_t>(winner.xpu)].bdf;
  }
  for (const XpuFinding& finding : findings) {
    json["providers"].push_back(FindingJson(finding, winner, *topology_));
  }
  return json;
}

Status ServiceTable::BindProcess(const std::string& id, int pid, int worker) {
  Service* service = Find(id);
  if (service == nullptr) return Error{ENOENT, "service \"" + id + "\" is not started here"};
  const std::optional<uint64_t> start = ProcessStartNs(roots_, pid);
  if (!start) return Error{ESRCH, "process " + std::to_string(pid) + " does not exist here"};
  if (worker < 0 || !service->processes->Bind(pid, *start, worker)) {
    return Error{EINVAL, "service \"" + id + "\" has no worker " + std::to_string(worker) +
                             "; start it with \"xpus\" or \"workers\""};
  }
  if (bound_.size() >= kMaxProcesses) bound_.clear();
  bound_[pid] = Bound{*start, id};
  processes_.erase(pid);
  return Ok();
}

bool ServiceTable::IsAbove(Service* service, uint64_t now) {
  if (service->looked_ns == 0 || now >= service->looked_ns + kLookNs) {
    service->is_above = service->payer->budget->IsAbove();
    service->looked_ns = now;
  }
  return service->is_above;
}

bool ServiceTable::IsAnyAbove() {
  const uint64_t now = backend_->NowNs();
  bool above = false;
  for (Service* service : active_) above |= IsAbove(service, now);
  return above;
}

void ServiceTable::ListActive() {
  active_.clear();
  for (const auto& service : services_) {
    if (service != nullptr) active_.push_back(service.get());
  }
  if (active_.empty()) active_.push_back(default_.get());
}

size_t ServiceTable::Started() const {
  return static_cast<size_t>(std::count_if(services_.begin(), services_.end(),
                                           [](const auto& service) { return service != nullptr; }));
}

}  // namespace ppc
