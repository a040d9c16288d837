// SPDX-License-Identifier: Apache-2.0
#include "daemon/backend/observer/program_set.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <fcntl.h>
#include <malloc.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <string>
#include <utility>

#include "daemon/backend/observer/programs.h"
#include "daemon/base/files.h"
#include "daemon/base/log.h"
#include "daemon/machine/kernel_version.h"
#include "observer.skel.h"

namespace ppc {
namespace {

constexpr char kKernelTypes[] = "/sys/kernel/btf/vmlinux";
constexpr uint32_t kRingBytes = 2 << 20;
// From this version on a fault maps the whole folio around its page.
constexpr int kMapsFolios = 6018;

int LogLibbpf(libbpf_print_level level, const char* format, va_list arguments) {
  if (level == LIBBPF_DEBUG) return 0;
  char line[512];
  const int bytes = std::vsnprintf(line, sizeof(line), format, arguments);
  if (bytes > 0) Log(LogLevel::kDebug, Trim(std::string("libbpf: ") + line));
  return bytes;
}

bool HasKernelName(const btf* kernel, const char* name, uint32_t kind) {
  return btf__find_by_name_kind(kernel, name, kind) > 0;
}

// Whether a program may be attached to that kernel function.  Tested with a program of two
// instructions: some kernels allow tracepoints but no function entries, and loading the real
// programs in vain takes 0.1 s of a CPU.
bool CanEnter(const btf* kernel, const char* function, bpf_attach_type place) {
  const int id = btf__find_by_name_kind(kernel, function, BTF_KIND_FUNC);
  if (id <= 0) return false;
  constexpr std::array<bpf_insn, 2> kReturnZero = {
      {{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0}, {.code = BPF_JMP | BPF_EXIT}}};
  LIBBPF_OPTS(bpf_prog_load_opts, options);
  options.expected_attach_type = place;
  options.attach_btf_id = static_cast<uint32_t>(id);
  const UniqueFd program(bpf_prog_load(BPF_PROG_TYPE_TRACING, "ppc_probe", "GPL",
                                       kReturnZero.data(), kReturnZero.size(), &options));
  return program.IsValid() && UniqueFd(bpf_raw_tracepoint_open(nullptr, program.Get())).IsValid();
}

// Only CAP_SYS_ADMIN may list types of kernel modules.  Without it libbpf must not ask: it takes
// the refusal for an error, although it needs only btrfs' types.
bool MayListTypes() {
  uint32_t first = 0;
  return bpf_btf_get_next_id(0, &first) == 0 || errno != EPERM || access(kKernelTypes, R_OK) != 0;
}

// A misbehaving runner must not change what other runners get.  Opening by id takes CAP_SYS_ADMIN;
// without it the copy is writable.
int CopyForReading(int map) {
  bpf_map_info info{};
  uint32_t bytes = sizeof(info);
  LIBBPF_OPTS(bpf_get_fd_by_id_opts, options, .open_flags = BPF_F_RDONLY);
  const int copy = bpf_obj_get_info_by_fd(map, &info, &bytes) == 0
                       ? bpf_map_get_fd_by_id_opts(info.id, &options)
                       : -1;
  return copy >= 0 ? copy : fcntl(map, F_DUPFD_CLOEXEC, 0);
}

// Error text: why programs could not be loaded, and the remedy.
Error Explain(const SysRoots& roots, int code) {
  const Result<std::string> lockdown = ReadLine(roots.Sys("/kernel/security/lockdown"));
  if (lockdown && lockdown->find("[confidentiality]") != std::string::npos) {
    return Error{EPERM,
                 "the kernel is locked down (confidentiality), which forbids BPF; boot with "
                 "lockdown=integrity, or use the module: --backend kmod"};
  }
  if (code == EPERM || code == EACCES) {
    return Error{EPERM,
                 "the kernel refuses BPF programs to this process; give it CAP_BPF and "
                 "CAP_PERFMON (and a seccomp profile that allows bpf), or use --backend poll"};
  }
  return PosixError("load the observer's BPF programs", code);
}

}  // namespace

void ObserverProgramSet::SkeletonDeleter::operator()(observer_bpf* skeleton) const {
  observer_bpf__destroy(skeleton);
}

void ObserverProgramSet::LinkDeleter::operator()(bpf_link* link) const { bpf_link__destroy(link); }

Result<std::unique_ptr<ObserverProgramSet>> ObserverProgramSet::Load(const SysRoots& roots) {
  std::unique_ptr<ObserverProgramSet> set(new ObserverProgramSet());
  const Status opened = set->Open(roots);
  malloc_trim(0);  // returns memory that held the kernel's types
  if (!opened) return opened.error();
  return set;
}

ObserverProgramSet::~ObserverProgramSet() = default;

// Chooses the programs for this kernel.
void ObserverProgramSet::Choose() {
  observer_bpf* s = skeleton_.get();
  const bool has_tracepoints = state_.has_tracepoints != 0;
  for (bpf_program* program : {s->progs.on_read, s->progs.on_map, s->progs.on_fault}) {
    bpf_program__set_autoload(program, has_tracepoints);
  }
  for (bpf_program* program : {s->progs.enter_fault, s->progs.enter_map}) {
    bpf_program__set_autoload(program, !has_tracepoints);
  }
  bpf_program__set_autoload(s->progs.enter_filemap_read, !has_tracepoints && has_filemap_read_);
  bpf_program__set_autoload(s->progs.enter_buffered_read, !has_tracepoints && !has_filemap_read_);
  bpf_program__set_autoload(s->progs.enter_map_folio, maps_folios_);
  bpf_program__set_autoload(s->progs.exit_map_pmd, maps_pmds_);
  bpf_program__set_autoload(s->progs.list_vmas, state_.can_learn != 0);
  bpf_program__set_autoload(s->progs.on_exec, state_.can_report_execs != 0);
  const bool reports_direct = state_.can_report_direct != 0;
  bpf_program__set_autoload(s->progs.on_direct, reports_direct && has_direct_tracepoint_);
  bpf_program__set_autoload(s->progs.enter_iomap_dio, reports_direct && !has_direct_tracepoint_);
}

// An LRU map reserves 128 entries for each CPU that adds one: in a small map CPUs take entries from
// each other although most are unused.
void ObserverProgramSet::SizeByCpus() {
  const int cpus = std::max(libbpf_num_possible_cpus(), 1);
  const auto by_cpus = static_cast<uint32_t>(cpus) * kObsLruPerCpu;
  state_.max_readers = std::max<uint32_t>(kObsMaxReaders, by_cpus);
  (void)bpf_map__set_max_entries(skeleton_->maps.readers, state_.max_readers);
  (void)bpf_map__set_max_entries(skeleton_->maps.reported_inodes,
                                 std::max<uint32_t>(kObsMaxReported, by_cpus));
}

// Returns an errno.
int ObserverProgramSet::LoadChosen(bool has_folios) {
  LIBBPF_OPTS(bpf_object_open_opts, options);
  if (!MayListTypes()) options.btf_custom_path = kKernelTypes;
  skeleton_.reset(observer_bpf__open_opts(&options));
  if (skeleton_ == nullptr) return errno;
  skeleton_->rodata->has_task_regs = state_.has_task_regs != 0;
  skeleton_->rodata->has_folios = has_folios;
  skeleton_->rodata->looks_for_folios = looks_for_folios_;
  if (getrandom(&skeleton_->rodata->salt, sizeof(skeleton_->rodata->salt), 0) < 0) return errno;
  SizeByCpus();
  Choose();
  return -observer_bpf__load(skeleton_.get());
}

Status ObserverProgramSet::Open(const SysRoots& roots) {
  if (sysconf(_SC_PAGESIZE) != kObsPageBytes) {
    return Error{ENOTSUP,
                 "the observer's programs count in pages of 4 KiB and this kernel has others; use "
                 "the module (--backend kmod) or --backend poll"};
  }
  libbpf_set_print(LogLibbpf);
  const std::unique_ptr<btf, void (*)(btf*)> kernel(btf__load_vmlinux_btf(), btf__free);
  if (libbpf_get_error(kernel.get()) != 0 || kernel == nullptr) {
    return Error{ENOTSUP,
                 "the observer needs a kernel that describes its types (/sys/kernel/btf/vmlinux, "
                 "CONFIG_DEBUG_INFO_BTF=y); use the module (--backend kmod) or --backend poll"};
  }
  const btf* const types = kernel.get();
  state_.has_tracepoints = HasKernelName(types, "btf_trace_mm_filemap_get_pages", BTF_KIND_TYPEDEF);
  state_.has_task_regs = HasKernelName(types, "bpf_task_pt_regs", BTF_KIND_FUNC);
  state_.can_learn = HasKernelName(types, "bpf_iter__task_vma", BTF_KIND_STRUCT);
  state_.can_report_execs = HasKernelName(types, "btf_trace_sched_process_exec", BTF_KIND_TYPEDEF);
  has_direct_tracepoint_ = HasKernelName(types, "btf_trace_iomap_dio_rw_begin", BTF_KIND_TYPEDEF);
  state_.can_report_direct =
      has_direct_tracepoint_ || CanEnter(types, "iomap_dio_rw", BPF_TRACE_FENTRY);
  has_filemap_read_ = HasKernelName(types, "filemap_read", BTF_KIND_FUNC);
  const bool has_folios = HasKernelName(types, "folio", BTF_KIND_STRUCT);
  const bool maps_folios =
      KernelVersion() >= kMapsFolios && HasKernelName(types, "set_pte_range", BTF_KIND_FUNC);
  const bool maps_pmds = has_folios && HasKernelName(types, "do_set_pmd", BTF_KIND_FUNC);
  const bool may_enter = (!maps_folios || CanEnter(types, "set_pte_range", BPF_TRACE_FENTRY)) &&
                         (!maps_pmds || CanEnter(types, "do_set_pmd", BPF_TRACE_FEXIT));
  maps_folios_ = maps_folios && may_enter;
  maps_pmds_ = maps_pmds && may_enter;
  looks_for_folios_ = maps_folios && !may_enter;
  state_.sees_pmds = maps_pmds_ || !has_folios;
  int code = LoadChosen(has_folios);
  // If the verifier refuses one of these optional programs, the others still load.
  for (uint32_t* const can_report : {&state_.can_report_direct, &state_.can_report_execs}) {
    if (code == 0 || *can_report == 0) continue;
    *can_report = 0;
    code = LoadChosen(has_folios);
    if (code != 0) *can_report = 1;
  }
  if (code != 0 && (maps_folios_ || maps_pmds_)) {
    looks_for_folios_ = maps_folios_;
    maps_folios_ = false;
    maps_pmds_ = false;
    state_.sees_pmds = false;
    code = LoadChosen(has_folios);
  }
  if (code != 0) return Explain(roots, code);
  wake_.Reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_.IsValid()) return PosixError("eventfd", errno);
  PublishState();
  return Ok();
}

// The kernel skips a program that is already active on the CPU (preempted, or entered again).
uint64_t ObserverProgramSet::Skipped() const {
  uint64_t skipped = 0;
  bpf_program* program = nullptr;
  bpf_object__for_each_program(program, skeleton_->obj) {
    bpf_prog_info info{};
    uint32_t bytes = sizeof(info);
    const int fd = bpf_program__fd(program);
    if (fd >= 0 && bpf_obj_get_info_by_fd(fd, &info, &bytes) == 0) skipped += info.recursion_misses;
  }
  return skipped;
}

void ObserverProgramSet::PublishState() {
  const uint32_t zero = 0;
  state_.inserts = !insert_links_.empty();
  state_.accesses = !access_links_.empty();
  state_.execs = !exec_links_.empty();
  state_.skipped = Skipped();
  (void)bpf_map_update_elem(bpf_map__fd(skeleton_->maps.state), &zero, &state_, BPF_ANY);
}

// --------------------------------------------------------------------- directories

Result<uint32_t> ObserverProgramSet::AddDirectory() {
  const auto free =
      std::find_if(rings_.begin(), rings_.end(), [](const Ring& ring) { return !ring.is_used; });
  if (free == rings_.end()) {
    return Error{ENOSPC, "the observer serves at most " + std::to_string(kObsMaxDirs) +
                             " directories; remove one with ppcctl rm_policy"};
  }
  const auto dir = static_cast<uint32_t>(free - rings_.begin());
  UniqueFd ring(bpf_map_create(BPF_MAP_TYPE_RINGBUF, "ppc_ring", 0, 0, kRingBytes, nullptr));
  if (!ring.IsValid()) return PosixError("make a ring for events", errno);
  const int fd = ring.Get();
  const obs_dir config{};
  const std::vector<obs_counts> none(static_cast<size_t>(libbpf_num_possible_cpus()));
  if (bpf_map_update_elem(bpf_map__fd(skeleton_->maps.counts), &dir, none.data(), BPF_ANY) != 0 ||
      bpf_map_update_elem(bpf_map__fd(skeleton_->maps.dirs), &dir, &config, BPF_ANY) != 0 ||
      bpf_map_update_elem(bpf_map__fd(skeleton_->maps.rings), &dir, &fd, BPF_ANY) != 0) {
    return PosixError("add a directory to the observer", errno);
  }
  *free = Ring{true, std::move(ring)};
  return dir;
}

void ObserverProgramSet::ClearWants(uint32_t dir) {
  const obs_dir nothing{};
  (void)bpf_map_update_elem(bpf_map__fd(skeleton_->maps.dirs), &dir, &nothing, BPF_ANY);
  (void)Update();
}

void ObserverProgramSet::RemoveDirectory(uint32_t dir) {
  ClearWants(dir);
  const Result<ObserverFds> fds = Share(dir);
  if (fds) ClearObserverDirectory(*fds, dir);
  (void)bpf_map_delete_elem(bpf_map__fd(skeleton_->maps.rings), &dir);
  rings_[dir] = Ring{};
}

bool ObserverProgramSet::IsEmpty() const {
  return std::none_of(rings_.begin(), rings_.end(), [](const Ring& ring) { return ring.is_used; });
}

Result<ObserverFds> ObserverProgramSet::Share(uint32_t dir) const {
  const observer_bpf* s = skeleton_.get();
  const int state = bpf_map__fd(s->maps.state);
  const std::array<int, kObsFdCount> sources = {
      bpf_map__fd(s->maps.inodes),
      bpf_map__fd(s->maps.reported_inodes),
      bpf_map__fd(s->maps.devices),
      bpf_map__fd(s->maps.dir_devices),
      bpf_map__fd(s->maps.dirs),
      bpf_map__fd(s->maps.readers),
      bpf_map__fd(s->maps.roots),
      bpf_map__fd(s->maps.own),
      bpf_map__fd(s->maps.counts),
      bpf_map__fd(s->maps.executables),
      state,
      state_.can_learn != 0 ? bpf_program__fd(s->progs.list_vmas) : state,
      rings_[dir].fd.Get(),
      wake_.Get()};
  ObserverFds copies;
  for (size_t i = 0; i < sources.size(); ++i) {
    const bool is_only_read = i == kObsFdCounts || i == kObsFdState;
    copies[i].Reset(is_only_read ? CopyForReading(sources[i])
                                 : fcntl(sources[i], F_DUPFD_CLOEXEC, 0));
    if (!copies[i].IsValid()) return PosixError("copy a descriptor of the observer", errno);
  }
  return copies;
}

// --------------------------------------------------------------------- attaching

Status ObserverProgramSet::Update() {
  uint64_t count = 0;
  (void)!read(wake_.Get(), &count, sizeof(count));
  Wanted wanted;
  for (uint32_t dir = 0; dir < kObsMaxDirs; ++dir) {
    obs_dir config{};
    if (!rings_[dir].is_used ||
        bpf_map_lookup_elem(bpf_map__fd(skeleton_->maps.dirs), &dir, &config) != 0) {
      continue;
    }
    const bool is_watched = config.is_watched != 0;
    wanted.inserts |= is_watched;
    wanted.accesses |= is_watched && (config.wants_progress | config.wants_trace) != 0;
    wanted.execs |= is_watched && config.wants_execs != 0 && state_.can_report_execs != 0;
    wanted.direct |= is_watched && config.wants_opens != 0 && state_.can_report_direct != 0;
  }
  // Before 5.13 a function's program can be attached only once.
  const bool stays = KernelVersion() < 5013;
  wanted.accesses |= stays && !access_links_.empty();
  wanted.direct |= stays && !direct_links_.empty();
  Status done = AttachWanted(wanted);
  state_.error = done ? 0 : done.error().code;
  ++state_.updates;
  PublishState();
  return done;
}

Status ObserverProgramSet::AttachWanted(const Wanted& wanted) {
  observer_bpf* s = skeleton_.get();
  const std::array<bpf_program*, 1> insertions = {s->progs.on_insert};
  std::vector<bpf_program*> accesses = {s->progs.on_read, s->progs.on_map, s->progs.on_fault};
  if (state_.has_tracepoints == 0) {
    accesses = {has_filemap_read_ ? s->progs.enter_filemap_read : s->progs.enter_buffered_read,
                s->progs.enter_map, s->progs.enter_fault};
  }
  Status done = Attach(wanted.inserts, &insert_links_, insertions);
  if (!done) return done;
  if (maps_folios_) accesses.push_back(s->progs.enter_map_folio);
  if (maps_pmds_) accesses.push_back(s->progs.exit_map_pmd);
  done = Attach(wanted.accesses, &access_links_, accesses);
  if (!done) return done;
  AttachBeside(wanted.execs, &exec_links_, s->progs.on_exec, &state_.can_report_execs);
  AttachBeside(wanted.direct, &direct_links_,
               has_direct_tracepoint_ ? s->progs.on_direct : s->progs.enter_iomap_dio,
               &state_.can_report_direct);
  return Ok();
}

// Its failure leaves the others attached: buffered reads are reported without it.
void ObserverProgramSet::AttachBeside(bool on, std::vector<Link>* links, bpf_program* program,
                                      uint32_t* can_report) {
  const std::array<bpf_program*, 1> one = {program};
  const Status attached = Attach(on, links, one);
  if (attached) return;
  Log(LogLevel::kWarning, attached.error().message);
  *can_report = 0;
}

Status ObserverProgramSet::Attach(bool on, std::vector<Link>* links,
                                  std::span<bpf_program* const> programs) {
  if (!on) links->clear();
  if (!on || !links->empty()) return Ok();
  for (bpf_program* program : programs) {
    Link link(bpf_program__attach(program));
    if (link == nullptr) {
      const int code = errno;
      links->clear();
      return PosixError(std::string("attach the observer's ") + bpf_program__name(program), code);
    }
    links->push_back(std::move(link));
  }
  return Ok();
}

}  // namespace ppc
