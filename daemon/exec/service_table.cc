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

// On a machine without XPUs, or with some that are not known as such, numbers are the workers' own.
// A service that is taken up again may lack one.
Status CheckXpus(const std::vector<int>& xpus, const Json& message, size_t count) {
  if (count == 0 || message.value("resumed", Json()) == true) return Ok();
  const auto missing =
      std::ranges::find_if(xpus, [count](int xpu) { return static_cast<size_t>(xpu) >= count; });
  if (missing == xpus.end()) return Ok();
  return Error{EINVAL, "there is no XPU " + std::to_string(*missing) + " here, only 0 to " +
                           std::to_string(count - 1) + "; `ppcctl xpus` lists them"};
}

// "xpus" of a message; without it worker w stands for XPU w.
Result<std::vector<int>> XpusOf(const Json& message, size_t count) {
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
  if (const Status status = CheckXpus(xpus, message, count); !status) return status.error();
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

// Without services the machine's own list stands for the workers.
std::vector<int> AllXpus(const Topology& machine) {
  std::vector<int> all(machine.xpus.size());
  std::iota(all.begin(), all.end(), 0);
  return all;
}

}  // namespace

ServiceNumbers::Number ServiceNumbers::Take(const std::string& id) {
  const std::lock_guard lock(state_->mutex);
  std::weak_ptr<const uint32_t>& known = state_->by_id[id];
  if (Number number = known.lock()) return number;
  const auto free = std::find(state_->taken.begin(), state_->taken.end(), false);
  const auto number = static_cast<uint32_t>(free - state_->taken.begin());
  if (number >= kMaxServices) {
    state_->by_id.erase(id);
    return nullptr;
  }
  if (free == state_->taken.end()) state_->taken.push_back(true);
  state_->taken[number] = true;
  const auto give_back = [state = state_](const uint32_t* mine) {
    {
      const std::lock_guard again(state->mutex);
      state->taken[*mine] = false;
      std::erase_if(state->by_id, [](const auto& entry) { return entry.second.expired(); });
    }
    delete mine;
  };
  Number taken(new uint32_t(number), give_back);
  known = taken;
  return taken;
}

ServiceNumbers::Number ServiceNumbers::Find(const std::string& id) {
  const std::lock_guard lock(state_->mutex);
  const auto known = state_->by_id.find(id);
  return known == state_->by_id.end() ? nullptr : known->second.lock();
}

ServiceTable::ServiceTable(Backend* backend, const Topology* topology, SysRoots roots,
                           MemoryFactory memory, const VendorXpus* vendors)
    : backend_(backend),
      topology_(topology),
      roots_(std::move(roots)),
      memory_(std::move(memory)),
      vendors_(vendors),
      readers_(roots_) {
  default_ = Make("", nullptr);
  Changed();
}

void ServiceTable::Use(Offload offload, Offload look_up, std::function<void()> on_answer) {
  (void)Memory(default_.get(), 0, /*with_cache=*/true);
  offload_ = std::move(offload);
  readers_.Use(std::move(look_up), std::move(on_answer));
}

std::unique_ptr<Service> ServiceTable::Make(const std::string& id,
                                            std::shared_ptr<const Cgroup> cgroup) {
  auto service = std::make_unique<Service>();
  service->id = id;
  service->cgroup = std::move(cgroup);
  service->payer = std::make_shared<Payer>(Payer{.serial = ++payers_});
  service->payer->budget = std::make_shared<Budget>(memory_(service->cgroup));
  if (id.empty()) {
    service->processes =
        std::make_shared<ProcessXpu>(roots_, AllXpus(*topology_), topology_, vendors_);
  }
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
  Changed();
  return Ok();
}

Result<std::unique_ptr<Service>> ServiceTable::Prepare(const Json& message) {
  Result<std::string> id = JsonString(message, "service_id", "");
  if (!id) return id.error();
  if (id->empty()) return Error{EINVAL, "service_start needs \"service_id\""};
  const Result<std::string> path = JsonString(message, "cgroup", "");
  if (!path) return path.error();
  Result<std::vector<int>> xpus = XpusOf(message, topology_->xpus.size());
  if (!xpus) return xpus.error();
  std::shared_ptr<const Cgroup> cgroup;
  if (!path->empty()) {
    Result<Cgroup> opened = Cgroup::Open(*path, roots_);
    if (!opened) return opened.error();
    cgroup = std::make_shared<Cgroup>(std::move(*opened));
  }
  Result<Membership> told = MembershipOf(message, cgroup, roots_);
  if (!told) return told.error();
  ServiceNumbers::Number place = numbers_.Take(*id);
  if (place == nullptr) return Error{ENOSPC, "too many services on one mount"};
  std::unique_ptr<Service> service = Make(*id, std::move(cgroup));
  service->place = std::move(place);
  service->number = service->payer->service = *service->place;
  service->processes = std::make_shared<ProcessXpu>(roots_, *xpus, topology_, vendors_);
  service->xpus = std::move(*xpus);
  service->told = std::move(*told);
  service->is_auto = service->told.is_auto;
  service->is_guess = service->is_auto && message.value("guess", Json()) == true;
  if (service->told.is_open()) service->message = message;
  service->memory = service->payer->budget->Read(/*with_cache=*/true);
  service->looked_ns = service->cache_wanted_ns = backend_->NowNs();
  return service;
}

Service* ServiceTable::Install(std::unique_ptr<Service> service) {
  Service* const installed = service.get();
  installed->loss_told_ns = backend_->NowNs();
  if (services_.size() <= installed->number) services_.resize(installed->number + 1);
  std::swap(services_[installed->number], service);
  Changed();
  Retire(std::move(service));
  return installed;
}

// It closes files of its cgroup and gives back its handle.
void ServiceTable::Retire(std::shared_ptr<Service> service) {
  if (service == nullptr || !offload_) return;
  (void)offload_([old = std::move(service)] {}, nullptr);
}

Result<Service*> ServiceTable::Start(const Json& message) {
  Result<std::unique_ptr<Service>> service = Prepare(message);
  return service ? Install(std::move(*service)) : Result<Service*>(service.error());
}

void ServiceTable::Stop(const std::string& id) {
  Service* service = Find(id);
  if (service == nullptr) return;
  std::erase_if(bound_, [&](const auto& entry) { return entry.second.id == id; });
  std::unique_ptr<Service> old = std::move(services_[service->number]);
  Changed();
  Retire(std::move(old));
}

std::optional<uint32_t> ServiceTable::NumberOf(const std::string& id) {
  const ServiceNumbers::Number number = numbers_.Find(id);
  return number == nullptr ? std::nullopt : std::optional<uint32_t>(*number);
}

void ServiceTable::AddRoot(const std::string& id, const Membership::Root& root) {
  Service* const service = Find(id);
  if (service == nullptr) return;
  std::vector<Membership::Root>& known = service->told.roots;
  if (known.size() >= kMaxRoots) known.erase(known.begin());
  known.push_back(root);
  Changed();
}

Service* ServiceTable::Find(const std::string& id) {
  for (const auto& service : services_) {
    if (service != nullptr && service->id == id) return service.get();
  }
  return nullptr;
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
  const std::shared_ptr<const Members> members = Snapshot();
  const Members::Entry* const owner = OwnerOf(roots_, *members, pid, *start, 0);
  ProcessXpu& chain = owner != nullptr ? *owner->processes : *members->mount;
  XpuAnswer winner;
  const std::vector<XpuFinding> findings = chain.Explain(pid, *start, &winner);
  const bool is_decided = winner.source != XpuSource::kUnknown;
  for (const XpuFinding& finding : findings) {
    if (winner.source == XpuSource::kUnknown) winner = finding.answer;
  }
  Json json{{"pid", pid},
            {"service_id", owner != nullptr ? owner->id : ""},
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

Result<uint64_t> ServiceTable::PrepareBinding(const std::string& id, int pid, int worker) {
  const std::shared_ptr<const Members> members = Snapshot();
  const auto service = std::find_if(members->services.begin(), members->services.end(),
                                    [&](const Members::Entry& one) { return one.id == id; });
  if (service == members->services.end()) {
    return Error{ENOENT, "service \"" + id + "\" is not started here"};
  }
  const std::optional<uint64_t> start = ProcessStartNs(roots_, pid);
  if (!start) return Error{ESRCH, "process " + std::to_string(pid) + " does not exist here"};
  if (worker < 0 || !service->processes->Bind(pid, *start, worker)) {
    return Error{EINVAL, "service \"" + id + "\" has no worker " + std::to_string(worker) +
                             "; start it with \"xpus\" or \"workers\""};
  }
  return *start;
}

void ServiceTable::Bind(const std::string& id, int pid, uint64_t start_ns) {
  if (bound_.size() >= kMaxBound) bound_.clear();
  bound_[pid] = Members::Bound{start_ns, id};
  Changed();
}

void ServiceTable::LookAtMemory(Service* service, uint64_t now) {
  if (!offload_) {
    service->memory = service->payer->budget->Read(service->cache_wanted_ns == now);
    service->looked_ns = now;
    return;
  }
  const bool needs_cache = now < service->cache_wanted_ns + kCacheWantedNs;
  struct Look {
    Budget::State state;
    uint64_t took_ns = 0;
  };
  auto found = std::make_shared<Look>();
  const auto look = [found, backend = backend_, payer = service->payer, needs_cache] {
    const uint64_t begun_ns = backend->NowNs();
    found->state = payer->budget->Read(needs_cache);
    found->took_ns = backend->NowNs() - begun_ns;
  };
  // Keeps nothing of a service that ends meanwhile: its files are closed where Retire says.
  const auto learn = [this, found, now, number = service->number, payer = service->payer->serial] {
    Service* const looked = PaidBy(number, payer);
    if (looked == nullptr) return;
    Budget::State& state = found->state;
    if (state.memory.cache == 0) {
      state.memory.cache = looked->payer->budget->Now(looked->memory).memory.cache;
    }
    looked->memory = state;
    looked->look_took_ns = found->took_ns;
    looked->looked_ns = now;
    looked->is_looking = false;
  };
  service->is_looking = offload_(look, learn);
}

const Budget::State& ServiceTable::Memory(Service* service, uint64_t age_ns, bool with_cache) {
  const uint64_t now = backend_->NowNs();
  if (with_cache) service->cache_wanted_ns = now;
  bool is_due = false;
  if (!offload_) {
    is_due = service->looked_ns == 0 || with_cache || now >= service->looked_ns + age_ns;
  } else if (!service->is_looking) {
    const uint64_t least_ns = std::max(kLookNs, kLookRest * service->look_took_ns);
    is_due = now >= service->looked_ns + std::max(age_ns, least_ns);
  }
  if (is_due) LookAtMemory(service, now);
  const Budget& budget = *service->payer->budget;
  if (!budget.HasChangedSince(service->memory)) return service->memory;
  service->memory_now = budget.Now(service->memory);
  return service->memory_now;
}

bool ServiceTable::IsAbove(Service* service) {
  const MemoryReading& memory = Memory(service, kLookNs).memory;
  return memory.used > memory.threshold;
}

bool ServiceTable::IsAnyAbove() {
  bool above = false;
  for (Service* service : active_) above |= IsAbove(service);
  return above;
}

std::vector<std::string> ServiceTable::Cgroups() const {
  std::vector<std::string> paths;
  for (const Members::Entry& service : Snapshot()->services) {
    if (service.payer != nullptr) paths.push_back(service.payer->relative());
    if (!service.told.root_cgroup.empty()) paths.push_back(service.told.root_cgroup);
  }
  return paths;
}

std::shared_ptr<const Members> ServiceTable::Snapshot() const {
  const std::lock_guard lock(members_mutex_);
  return members_;
}

// What others see of the services is made anew.
void ServiceTable::Changed() {
  auto members = std::make_shared<Members>();
  active_.clear();
  for (const auto& service : services_) {
    if (service == nullptr) continue;
    active_.push_back(service.get());
    members->services.push_back(
        {service->number, service->id, service->told, service->processes, service->cgroup});
  }
  if (active_.empty()) active_.push_back(default_.get());
  members->bound = bound_;
  members->mount = default_->processes;
  readers_.SetMembers(members);
  const std::lock_guard lock(members_mutex_);
  members_ = std::move(members);
}

size_t ServiceTable::Started() const {
  return static_cast<size_t>(std::count_if(services_.begin(), services_.end(),
                                           [](const auto& service) { return service != nullptr; }));
}

}  // namespace ppc
