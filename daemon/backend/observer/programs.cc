// SPDX-License-Identifier: Apache-2.0
#include "daemon/backend/observer/programs.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "daemon/base/files.h"
#include "daemon/base/log.h"
#include "observer.skel.h"

namespace ppc {
namespace {

constexpr uint32_t kRingBytes = 2 << 20;

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

// Why programs could not be loaded, and what to do.
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

void ObserverPrograms::SkeletonDeleter::operator()(observer_bpf* skeleton) const {
  observer_bpf__destroy(skeleton);
}

void ObserverPrograms::LinkDeleter::operator()(bpf_link* link) const { bpf_link__destroy(link); }

Result<std::unique_ptr<ObserverPrograms>> ObserverPrograms::Load(const SysRoots& roots) {
  std::unique_ptr<ObserverPrograms> programs(new ObserverPrograms());
  const Status opened = programs->Open(roots);
  if (!opened) return opened.error();
  return programs;
}

ObserverPrograms::~ObserverPrograms() = default;

// Which programs this kernel can have.
void ObserverPrograms::Choose() {
  observer_bpf* s = skeleton_.get();
  for (bpf_program* program : {s->progs.on_read, s->progs.on_map, s->progs.on_fault}) {
    bpf_program__set_autoload(program, has_tracepoints_);
  }
  for (bpf_program* program : {s->progs.enter_fault, s->progs.enter_map}) {
    bpf_program__set_autoload(program, !has_tracepoints_);
  }
  bpf_program__set_autoload(s->progs.enter_filemap_read, !has_tracepoints_ && has_filemap_read_);
  bpf_program__set_autoload(s->progs.enter_buffered_read, !has_tracepoints_ && !has_filemap_read_);
  bpf_program__set_autoload(s->progs.list_own_vmas, can_learn_);
}

Status ObserverPrograms::Open(const SysRoots& roots) {
  libbpf_set_print(LogLibbpf);
  const std::unique_ptr<btf, void (*)(btf*)> kernel(btf__load_vmlinux_btf(), btf__free);
  if (libbpf_get_error(kernel.get()) != 0 || kernel == nullptr) {
    return Error{ENOTSUP,
                 "the observer needs a kernel that describes its types (/sys/kernel/btf/vmlinux, "
                 "CONFIG_DEBUG_INFO_BTF=y); use the module (--backend kmod) or --backend poll"};
  }
  has_tracepoints_ =
      HasKernelName(kernel.get(), "btf_trace_mm_filemap_get_pages", BTF_KIND_TYPEDEF);
  has_filemap_read_ = HasKernelName(kernel.get(), "filemap_read", BTF_KIND_FUNC);
  has_task_regs_ = HasKernelName(kernel.get(), "bpf_task_pt_regs", BTF_KIND_FUNC);
  can_learn_ = HasKernelName(kernel.get(), "bpf_iter__task_vma", BTF_KIND_STRUCT);
  skeleton_.reset(observer_bpf__open());
  if (skeleton_ == nullptr) return Explain(roots, errno);
  skeleton_->rodata->has_task_regs = has_task_regs_;
  skeleton_->rodata->has_folios = HasKernelName(kernel.get(), "folio", BTF_KIND_STRUCT);
  Choose();
  const int code = observer_bpf__load(skeleton_.get());
  if (code != 0) return Explain(roots, -code);
  return Ok();
}

// --------------------------------------------------------------------- directories

Result<uint32_t> ObserverPrograms::AddDirectory() {
  const std::lock_guard lock(mutex_);
  const auto free = std::find_if(dirs_.begin(), dirs_.end(), [](auto& dir) { return !dir.used; });
  if (free == dirs_.end()) {
    return Error{ENOSPC, "the observer serves at most " + std::to_string(kObsMaxDirs) +
                             " directories; remove one with ppcctl rm_policy"};
  }
  const auto dir = static_cast<uint32_t>(free - dirs_.begin());
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
  *free = DirState{.used = true, .watched = false, .wants = {}, .ring = std::move(ring)};
  return dir;
}

void ObserverPrograms::RemoveDirectory(uint32_t dir) {
  const std::lock_guard lock(mutex_);
  dirs_[dir].watched = false;
  dirs_[dir].wants = {};
  (void)AttachAsNeeded();
  (void)bpf_map_delete_elem(bpf_map__fd(skeleton_->maps.rings), &dir);
  dirs_[dir] = {};
}

int ObserverPrograms::RingFd(uint32_t dir) const {
  const std::lock_guard lock(mutex_);
  return dirs_[dir].ring.Get();
}

Status ObserverPrograms::Want(uint32_t dir, const Wants& wants) {
  const std::lock_guard lock(mutex_);
  const obs_dir config{.beacon = wants.beacon_bytes,
                       .woken_ns = 0,
                       .urgent_ns = 0,
                       .wants_trace = wants.trace,
                       .wants_progress = wants.progress};
  if (bpf_map_update_elem(bpf_map__fd(skeleton_->maps.dirs), &dir, &config, BPF_ANY) != 0) {
    return PosixError("tell the observer what is wanted", errno);
  }
  dirs_[dir].wants = wants;
  return AttachAsNeeded();
}

Status ObserverPrograms::Watch(uint32_t dir, bool on) {
  const std::lock_guard lock(mutex_);
  dirs_[dir].watched = on;
  return AttachAsNeeded();
}

// mutex_ held.
Status ObserverPrograms::AttachAsNeeded() {
  bool wants_access = false;
  bool wants_inserts = false;
  for (const DirState& dir : dirs_) {
    wants_inserts |= dir.watched;
    wants_access |= dir.watched && (dir.wants.progress || dir.wants.trace);
  }
  observer_bpf* s = skeleton_.get();
  const std::array<bpf_program*, 1> inserts = {s->progs.on_insert};
  const std::array<bpf_program*, 3> tracepoints = {s->progs.on_read, s->progs.on_map,
                                                   s->progs.on_fault};
  const std::array<bpf_program*, 3> entries = {
      has_filemap_read_ ? s->progs.enter_filemap_read : s->progs.enter_buffered_read,
      s->progs.enter_map, s->progs.enter_fault};
  Status done = Attach(wants_inserts, &insert_links_, inserts);
  if (!done) return done;
  return Attach(wants_access, &access_links_, has_tracepoints_ ? tracepoints : entries);
}

Status ObserverPrograms::Attach(bool on, std::vector<Link>* links,
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

// --------------------------------------------------------------------- maps

Status ObserverPrograms::AddInode(const obs_inode_key& key, const obs_inode& inode) {
  if (bpf_map_update_elem(bpf_map__fd(skeleton_->maps.inodes), &key, &inode, BPF_ANY) == 0) {
    return Ok();
  }
  if (errno != E2BIG) return PosixError("list a file for the observer", errno);
  return Error{ENOSPC, "the observer lists at most " + std::to_string(kObsMaxInodes) +
                           " files; register the models' directory, not one above it"};
}

void ObserverPrograms::RemoveInode(const obs_inode_key& key) {
  (void)bpf_map_delete_elem(bpf_map__fd(skeleton_->maps.inodes), &key);
}

Status ObserverPrograms::AddDevice(uint32_t dev, uint32_t dir) {
  if (bpf_map_update_elem(bpf_map__fd(skeleton_->maps.devices), &dev, &dir, BPF_ANY) != 0) {
    return PosixError("list a device for the observer", errno);
  }
  return Ok();
}

void ObserverPrograms::RemoveDevice(uint32_t dev) {
  (void)bpf_map_delete_elem(bpf_map__fd(skeleton_->maps.devices), &dev);
}

void ObserverPrograms::AddOwn(pid_t tgid) {
  const auto key = static_cast<uint32_t>(tgid);
  const uint32_t one = 1;
  (void)bpf_map_update_elem(bpf_map__fd(skeleton_->maps.own), &key, &one, BPF_ANY);
}

void ObserverPrograms::RemoveOwn(pid_t tgid) {
  const auto key = static_cast<uint32_t>(tgid);
  (void)bpf_map_delete_elem(bpf_map__fd(skeleton_->maps.own), &key);
}

void ObserverPrograms::TakeGathered(
    uint32_t dir, uint64_t now_ns, uint64_t older_ns,
    const std::function<void(const obs_reader_key&, const obs_reader&)>& each) {
  const int map = bpf_map__fd(skeleton_->maps.readers);
  std::vector<obs_reader_key> old;
  obs_reader_key key{};
  const obs_reader_key* from = nullptr;
  obs_reader reader{};
  // An entry that goes meanwhile makes the walk start again: at most so many steps.
  for (int i = 0; i < kObsMaxReaders && bpf_map_get_next_key(map, from, &key) == 0; ++i) {
    from = &key;
    if (key.dir != dir || bpf_map_lookup_elem(map, &key, &reader) != 0) continue;
    if (reader.time_ns + older_ns > now_ns) continue;
    old.push_back(key);
  }
  for (const obs_reader_key& gone : old) {
    if (bpf_map_lookup_elem(map, &gone, &reader) != 0) continue;
    (void)bpf_map_delete_elem(map, &gone);
    each(gone, reader);
  }
}

obs_counts ObserverPrograms::Counts(uint32_t dir) const {
  std::vector<obs_counts> cpus(static_cast<size_t>(libbpf_num_possible_cpus()));
  obs_counts sum{};
  if (bpf_map_lookup_elem(bpf_map__fd(skeleton_->maps.counts), &dir, cpus.data()) != 0) return sum;
  for (const obs_counts& cpu : cpus) {
    sum.sent += cpu.sent;
    sum.lost += cpu.lost;
    sum.coalesced += cpu.coalesced;
    sum.wakeups += cpu.wakeups;
  }
  return sum;
}

Result<std::vector<obs_vma>> ObserverPrograms::OwnMappings() {
  if (!can_learn_) return Error{ENOTSUP, "this kernel does not show the inodes behind mappings"};
  const std::lock_guard lock(mutex_);
  union bpf_iter_link_info info {};
  info.task.pid = static_cast<uint32_t>(getpid());
  LIBBPF_OPTS(bpf_iter_attach_opts, options, .link_info = &info, .link_info_len = sizeof(info));
  Link link(bpf_program__attach_iter(skeleton_->progs.list_own_vmas, &options));
  if (link == nullptr) {
    // Before 6.1 it shows all tasks; ours are picked by number.
    skeleton_->bss->own_tgid = getpid();
    link.reset(bpf_program__attach_iter(skeleton_->progs.list_own_vmas, nullptr));
    if (link == nullptr) return PosixError("ask the kernel about our mappings", errno);
  }
  const UniqueFd iterator(bpf_iter_create(bpf_link__fd(link.get())));
  if (!iterator.IsValid()) return PosixError("ask the kernel about our mappings", errno);
  std::vector<obs_vma> found;
  std::array<obs_vma, 256> part;
  char* const bytes = reinterpret_cast<char*>(part.data());
  size_t have = 0;
  while (true) {
    const ssize_t got = read(iterator.Get(), bytes + have, sizeof(part) - have);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got < 0) return PosixError("read what the kernel says of our mappings", errno);
    if (got == 0) return found;
    have += static_cast<size_t>(got);
    const size_t whole = have / sizeof(obs_vma);
    found.insert(found.end(), part.begin(), part.begin() + static_cast<long>(whole));
    have -= whole * sizeof(obs_vma);
    std::memmove(bytes, bytes + whole * sizeof(obs_vma), have);
  }
}

}  // namespace ppc
