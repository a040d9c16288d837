// SPDX-License-Identifier: Apache-2.0
#include "daemon/exec/runtime.h"

#include <fcntl.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <filesystem>
#include <system_error>
#include <utility>

#include "daemon/base/clock.h"
#include "daemon/base/digests.h"
#include "daemon/base/log.h"
#include "daemon/base/unique_fd.h"
#include "daemon/machine/host_memory.h"
#include "daemon/machine/proc_info.h"

namespace ppc {
namespace {
// A share of the memory limit, far beyond what can ever be used.
constexpr double kBlindShare = 16;
constexpr double kStallShare = 0.1;  // of a second that tasks may wait for memory

// While ppc_init runs nothing is consumed; a runner that dies closes its descriptor, and one
// that hangs is detached by the watchdog.
constexpr uint32_t kInitLeaseMs = 600000;

// Directory of the cgroup this process is in, "" if it is the root's.
std::string OwnCgroup(const SysRoots& roots) {
  const std::optional<std::string> path = ProcessCgroup(roots, getpid());
  if (!path || *path == "/") return "";
  const Result<Cgroup> group = Cgroup::Open(*path, roots);
  return group ? group->path() : "";
}

// One runner has a directory, so one has the file.  Nodes may share a directory of templates, and
// an inode is one node's.
std::string LearntFile(const RuntimeConfig& config, const std::string& suffix) {
  constexpr size_t kDigits = 16;
  utsname node{};
  (void)uname(&node);
  const std::string name =
      Sha256Hex(std::string(node.nodename) + '\0' + config.mount).substr(0, kDigits);
  return config.options.template_dir + "/learnt/" + name + suffix;
}

// An empty file says yes.
void Keep(const std::string& path, bool on) {
  std::error_code ignored;  // at worst the next start loads too much, or too little
  if (!on) {
    std::filesystem::remove(path, ignored);
    return;
  }
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
  UniqueFd(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)).Reset();
}

// One cannot keep up with the fastest disks, and is the last to run where CPUs are short.  All but
// one may wait for processes that hang (observer).
constexpr int kEvictorThreads = 4;

// A process that hangs keeps one thread that looks readers up, and another is started.  A tenant
// keeps few (HungReads).
constexpr size_t kMostLookups = 64;

}  // namespace

Runtime::Runtime(Backend* backend, const ppc_operation& table, RuntimeConfig config)
    : backend_(backend), config_(std::move(config)), neighbours_(config_.roots, getpid()) {
  BuildParts(table);
}

Runtime::~Runtime() { Shutdown(); }

void Runtime::BuildParts(const ppc_operation& table) {
  const RuntimeOptions& options = config_.options;
  files_ = std::make_unique<FileTable>(backend_);
  services_ = std::make_unique<ServiceTable>(
      backend_, &config_.topology, config_.roots,
      [this](std::shared_ptr<const Cgroup> cgroup) { return MakeMemory(std::move(cgroup)); },
      config_.vendor_xpus.get());
  if (options.guard) guard_ = std::make_unique<Guard>();
  // Simulated time has no neighbours.
  std::function<bool(uint64_t)> mind;
  if (!config_.manual) mind = [this](uint64_t now_ns) { return DoNeighboursWait(now_ns); };
  loader_ = std::make_unique<LoaderPool>(
      backend_, config_.topology.nodes,
      LoaderPool::Options{.chunk_bytes = options.chunk_bytes,
                          .threads_per_node = options.threads_per_node,
                          .small_loads = backend_->Caps().small_loads,
                          .manual = config_.manual,
                          .neighbours_wait = mind,
                          .on_loaded = [this](uint64_t bytes) { own_cache_ += bytes; }},
      &completions_);
  evictor_ = std::make_unique<Evictor>(
      backend_,
      Evictor::Options{.threads = kEvictorThreads,
                       .manual = config_.manual,
                       .on_dropped = [this](uint64_t bytes) { OnDropped(bytes); }},
      &completions_);
  policy_services_ = std::make_unique<PolicyServices>(PolicyServices::Parts{
      backend_, files_.get(), services_.get(), &config_.topology, loader_.get(), &demand_,
      [this](uint32_t want, uint64_t beacon) { return Want(want, beacon); },
      [this](void (*work)(void*), void (*done)(void*), void* arg) {
        return Background(background_.get(), work, done, arg);
      },
      [this](void (*work)(void*), void (*done)(void*), void* arg) {
        return Background(remote_.get(), work, done, arg);
      },
      guard_.get()});
  const uint64_t period = std::min<uint64_t>(options.lease_ms / 4, options.hook_timeout_ms);
  watchdog_ = std::make_unique<Watchdog>(
      Watchdog::Options{.period_ns = std::max<uint64_t>(period, 1) * kNsPerMs,
                        .on_hang = [this](const char* hook, uint64_t ns) { OnHang(hook, ns); },
                        .on_busy = [this] { backend_->RenewLease(); }});
  host_ = std::make_unique<PolicyHost>(
      table, PolicyHostOptions{.hook_timeout_ns = options.hook_timeout_ms * kNsPerMs},
      policy_services_.get(), watchdog_.get());
  const Result<BackendCounters> counters = backend_->Counters();
  const uint64_t mount_window = counters ? counters->window_bytes : 0;
  const uint64_t window = options.window_bytes != 0 ? options.window_bytes : mount_window;
  background_ = std::make_unique<JobQueue>("ppc-background", config_.manual);
  remote_ =
      std::make_unique<JobQueue>("ppc-remote", config_.manual, std::move(config_.remote_delay));
  control_ = std::make_unique<JobQueue>("ppc-control", config_.manual);
  lookups_ = std::make_unique<JobQueue>("ppc-readers", config_.manual, JobQueue::SimulatedDelay{},
                                        kMostLookups);
  if (host_->Has(Hook::kControl)) {
    if (options.learnt_starts) {
      learnt_ = std::make_unique<LearntPrograms>(
          LearntPrograms::Parts{backend_, LearntFile(config_, ".json"),
                                [this](std::function<void()> work, std::function<void()> done) {
                                  Do(std::move(work), std::move(done));
                                }});
    }
    autos_ = std::make_unique<AutoServices>(
        AutoServices::Parts{services_.get(), backend_, config_.roots,
                            [this](Json message, std::function<void(Result<Json>)> done) {
                              Control(std::move(message), std::move(done));
                            },
                            [this](std::function<void()> work, std::function<void()> done) {
                              Do(std::move(work), std::move(done));
                            },
                            [this](std::function<void()> work, std::function<void()> done) {
                              return LookUp(std::move(work), std::move(done));
                            },
                            [this] { executor_->ReleaseHeld(); }, config_.on_start_again,
                            options.auto_service, learnt_.get(), guard_.get()});
  }
  executor_ = std::make_unique<Executor>(
      Executor::Parts{backend_, loader_.get(), evictor_.get(), &completions_, host_.get(),
                      policy_services_.get(), files_.get(), services_.get(), &config_.topology,
                      &demand_, &own_cache_, autos_.get(), control_.get(), lookups_.get(),
                      background_.get(), remote_.get(), config_.recorder, guard_.get(),
                      [this] { AttachAnew(); }},
      Executor::Options{options.tick_ns, options.nap_ns, options.chunk_bytes, window,
                        config_.manual});
}

// On a loader's thread.  With a shorter queue they wait less, which is no reason to make it long
// again at once.
bool Runtime::DoNeighboursWait(uint64_t now_ns) {
  constexpr double kWaitShare = 0.1;
  constexpr uint64_t kHoldNs = 10 * kNsPerSec;
  if (neighbours_.Waiting(now_ns) > kWaitShare) neighbours_wait_ns_ = now_ns;
  return neighbours_wait_ns_ != 0 && now_ns < neighbours_wait_ns_ + kHoldNs;
}

std::shared_ptr<MemorySource> Runtime::MakeMemory(std::shared_ptr<const Cgroup> cgroup) {
  if (config_.memory) return config_.memory(std::move(cgroup));
  return std::make_shared<ServiceMemory>(
      ServiceMemory::Options{
          .roots = config_.roots,
          .share = config_.options.is_blind ? kBlindShare : config_.options.threshold,
          .limit_bytes = config_.options.limit_bytes,
          .reserve_bytes = config_.options.reserve_bytes,
          .reserve_share = config_.options.reserve_share,
          .stall_share = config_.options.is_blind ? 0 : kStallShare,
          .own_cache = &own_cache_,
          .share_bytes = config_.options.is_blind ? nullptr : &memory_share_,
          .own_cgroup = OwnCgroup(config_.roots),
          .now_ns = nullptr,
          .readings = readings_},
      std::move(cgroup));
}

ContextFacts Runtime::Facts() {
  const Capabilities caps = backend_->Caps();
  ContextFacts facts;
  facts.config = config_.config;
  facts.mount = config_.mount;
  facts.template_dir = config_.options.template_dir;
  facts.caps = (caps.unmap ? PPC_CAN_UNMAP : 0u) | (caps.progress ? PPC_CAN_PROGRESS : 0u) |
               (caps.trace ? PPC_CAN_TRACE : 0u) | (caps.charge ? PPC_CAN_CHARGE : 0u) |
               (caps.node ? PPC_CAN_NODE : 0u) | (caps.sampled ? PPC_IS_SAMPLED : 0u) |
               (caps.misses_huge ? PPC_MISSES_HUGE : 0u) |
               (caps.misses_direct ? PPC_MISSES_DIRECT : 0u) | PPC_CAN_DEADLINES | PPC_CAN_MANY |
               (config_.options.trace_file.empty() ? 0u : PPC_IS_TRACED);
  facts.nr_nodes = static_cast<int>(config_.topology.nodes.size());
  facts.nr_xpus = static_cast<int>(config_.topology.xpus.size());
  const Result<BackendCounters> counters = backend_->Counters();
  if (counters) {
    facts.window_bytes = counters->window_bytes;
    facts.beacon_bytes = counters->beacon_bytes;
  }
  return facts;
}

Status Runtime::Start() {
  const RuntimeOptions& options = config_.options;
  if (options.learnt_starts && !LearntPrograms::AreBuilt()) {
    return Error{ENOTSUP, "\"learnt_starts\": this ppc-runner was built without them"};
  }
  if (options.learnt_starts && !backend_->Caps().execs) {
    return Error{ENOTSUP,
                 "\"learnt_starts\" needs a backend that sees programs start: register the "
                 "directory itself with --backend observer, or leave the option out"};
  }
  Status opened = services_->OpenDefault(options.cgroup);
  if (opened && !options.trace_file.empty()) {
    opened = policy_services_->OpenTrace(options.trace_file);
  }
  if (!opened) return opened;
  // First become the reader, so that of two registrations one is refused before its policy
  // runs; with what events, only the policy knows.
  Status claimed =
      backend_->Attach(AttachOptions{.lease_ms = kInitLeaseMs, .label = config_.policy_name});
  if (!claimed) return claimed;
  if (learnt_ != nullptr) learnt_->Open();
  const std::string mark = LearntFile(config_, ".vanishes");
  if (guard_ != nullptr)
    guard_->ExpectVanishing(access(mark.c_str(), F_OK) == 0,
                            [this, mark](bool on) { Do([mark, on] { Keep(mark, on); }, nullptr); });
  const Status initialized = host_->Init(Facts());
  started_ = true;
  started_ns_ = backend_->NowNs();
  Status attached = initialized ? AttachAsWanted() : initialized;
  if (!attached) {
    Shutdown();
  } else {
    NoteStatus();
  }
  return attached;
}

// Policies that set neither ppc_prefetch nor ppc_plan keep the kernel's own read-ahead: the
// default of the paper's ppc_prefetch "similar to the kernel's" is the kernel's itself.
Status Runtime::AttachAsWanted() {
  const uint32_t want = has_want_ ? want_ : (host_->ManagesReadahead() ? PPC_WANT_MANAGED_RA : 0);
  AttachOptions attach;
  attach.managed_readahead = (want & PPC_WANT_MANAGED_RA) != 0 && !executor_->AreLoadsStuck();
  const bool tells_progress = (want & PPC_WANT_PROGRESS) != 0;
  attach.progress = tells_progress || (guard_ != nullptr && guard_->WantsHits());
  attach.trace = (want & PPC_WANT_TRACE) != 0;
  attach.open_close = (want & PPC_WANT_OPENCLOSE) != 0;
  attach.lease_ms = config_.options.lease_ms;
  attach.window_bytes = config_.options.window_bytes;
  attach.beacon_bytes = beacon_bytes_;
  attach.label = config_.policy_name;
  const Capabilities caps = backend_->Caps();
  if (guard_ != nullptr)
    guard_->SetHitsSeen((attach.progress && caps.progress) || (attach.trace && caps.trace));
  executor_->SetTellsProgress(tells_progress);
  return backend_->Attach(attach);
}

Status Runtime::Want(uint32_t want, uint64_t beacon_bytes) {
  const bool has_hits = (want & (PPC_WANT_PROGRESS | PPC_WANT_TRACE)) != 0;
  const bool had_hits = (want_ & (PPC_WANT_PROGRESS | PPC_WANT_TRACE)) != 0;
  if (guard_ != nullptr && had_hits && !has_hits) guard_->EndLoads();
  want_ = want;
  has_want_ = true;
  if (executor_ != nullptr) executor_->SetEvictEveryTick((want & PPC_WANT_EVICT) != 0);
  if (beacon_bytes != 0) beacon_bytes_ = beacon_bytes;
  // Before Start has attached it is only noted.
  if (!started_ || shut_down_) return Ok();
  return AttachAsWanted();
}

// The guard judges what is loaded by what is read of it, whether the policy is told or not; and
// read-ahead is ours only while loads go on.
void Runtime::AttachAnew() {
  if (!started_ || shut_down_) return;
  if (Status attached = AttachAsWanted(); !attached)
    Log(LogLevel::kWarning, "events are told as before: " + attached.error().message);
}

// A policy's exception must not end the process, whatever thread it is on.
Status Runtime::Background(JobQueue* queue, void (*work)(void*), void (*done)(void*), void* arg) {
  auto thrown = std::make_shared<std::string>();
  return queue->Submit(
      [work, arg, thrown] {
        try {
          work(arg);
        } catch (const std::exception& e) {
          *thrown = std::string("work threw: ") + e.what();
        } catch (...) {
          *thrown = "work threw something that is no std::exception";
        }
      },
      [this, done, arg, thrown] { host_->BackgroundDone(done, arg, *thrown); });
}

void Runtime::OnHang(const char* hook, uint64_t elapsed_ns) {
  // From now on the kernel's policy is in force; no reader waits for the hook.
  backend_->Detach();
  const std::string message =
      std::string(hook) + " hangs for " + std::to_string(elapsed_ns / kNsPerMs) + " ms";
  if (config_.on_hang) {
    config_.on_hang(message);
  } else {
    Log(LogLevel::kError, message);
  }
}

void Runtime::OnDropped(uint64_t bytes) {
  uint64_t now = own_cache_.load(std::memory_order_relaxed);
  while (!own_cache_.compare_exchange_weak(now, now - std::min(now, bytes),
                                           std::memory_order_relaxed)) {
  }
}

void Runtime::Shutdown() {
  if (std::exchange(shut_down_, true)) return;
  if (started_) backend_->Detach();
  loader_->Stop();
  evictor_->Stop(/*abandon=*/false);
  // Results of what was still in flight reach the policy before ppc_exit.
  executor_->Pump();
  is_stuck_ = lookups_->Close();
  control_->Finish();
  background_->Finish();
  // What is there to be sent to other machines, from background work too; they may not answer.
  if (!remote_->FinishWithin(std::chrono::seconds(PPC_REMOTE_EXIT_S))) is_stuck_ = true;
  host_->Exit();
  policy_services_->FlushTrace();
}

}  // namespace ppc
