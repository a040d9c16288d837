// SPDX-License-Identifier: Apache-2.0
#include "daemon/backend/observer/programs.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "daemon/base/clock.h"
#include "daemon/base/log.h"

namespace ppc {
namespace {

constexpr uint64_t kAttachNs = 200 * kNsPerMs;  // longest wait for ppcd to attach
constexpr useconds_t kAttachLookUs = 500;

// Deletes the keys for which `is_gone` is true.
template <typename Key, typename Value, typename Pick>
void DeleteWhere(int map, uint32_t limit, Pick is_gone) {
  std::vector<Key> gone;
  Key key{};
  const Key* from = nullptr;
  Value value{};
  // If a key vanishes the walk restarts, so the steps are limited.
  for (uint32_t i = 0; i < limit && bpf_map_get_next_key(map, from, &key) == 0; ++i) {
    from = &key;
    if (bpf_map_lookup_elem(map, &key, &value) == 0 && is_gone(key, value)) gone.push_back(key);
  }
  for (const Key& each : gone) (void)bpf_map_delete_elem(map, &each);
}

}  // namespace

void ClearObserverDirectory(const ObserverFds& fds, uint32_t dir) {
  DeleteWhere<obs_inode_key, obs_inode>(
      fds[kObsFdInodes].Get(), 2 * kObsMaxInodes,
      [dir](const obs_inode_key&, const obs_inode& inode) { return inode.dir == dir; });
  DeleteWhere<obs_device_key, uint32_t>(
      fds[kObsFdDirDevices].Get(), 32 * kObsMaxDirs,
      [dir](const obs_device_key& key, uint32_t) { return key.dir == dir; });
  DeleteWhere<obs_root_key, uint32_t>(
      fds[kObsFdRoots].Get(), 4 * kObsMaxDirs,
      [dir](const obs_root_key&, uint32_t owner) { return owner == dir; });
  DeleteWhere<obs_exec_key, uint32_t>(
      fds[kObsFdExecutables].Get(), 2 * kObsMaxExecutables,
      [dir](const obs_exec_key& key, uint32_t) { return key.dir == dir; });
  const uint32_t zero = 0;
  obs_state state{};
  (void)bpf_map_lookup_elem(fds[kObsFdState].Get(), &zero, &state);
  DeleteWhere<obs_reader_key, obs_reader>(
      fds[kObsFdReaders].Get(), 2 * state.max_readers,
      [dir](const obs_reader_key& key, const obs_reader&) { return key.dir == dir; });
  DeleteWhere<uint32_t, uint32_t>(fds[kObsFdOwn].Get(), 2 * kObsMaxOwn,
                                  [dir](uint32_t, uint32_t owner) { return owner == dir; });
}

Result<std::unique_ptr<ObserverPrograms>> ObserverPrograms::Load(const SysRoots& roots) {
  Result<std::unique_ptr<ObserverProgramSet>> set = ObserverProgramSet::Load(roots);
  if (!set) return set.error();
  const Result<uint32_t> dir = (*set)->AddDirectory();
  if (!dir) return dir.error();
  Result<ObserverFds> fds = (*set)->Share(*dir);
  if (!fds) return fds.error();
  std::unique_ptr<ObserverPrograms> programs(
      new ObserverPrograms(std::move(*set), std::move(*fds), *dir));
  const Status started = programs->Start();
  if (!started) return started.error();
  return programs;
}

Result<std::unique_ptr<ObserverPrograms>> ObserverPrograms::Adopt(ObserverFds fds, uint32_t dir) {
  std::unique_ptr<ObserverPrograms> programs(new ObserverPrograms(nullptr, std::move(fds), dir));
  const Status started = programs->Start();
  if (!started) return started.error();
  ClearObserverDirectory(programs->fds_, dir);
  return programs;
}

ObserverPrograms::ObserverPrograms(std::unique_ptr<ObserverProgramSet> own, ObserverFds fds,
                                   uint32_t dir)
    : own_(std::move(own)), fds_(std::move(fds)), dir_(dir) {}

ObserverPrograms::~ObserverPrograms() { Unwatch(); }

Status ObserverPrograms::Start() {
  const uint32_t zero = 0;
  if (dir_ >= kObsMaxDirs || bpf_map_lookup_elem(Fd(kObsFdState), &zero, &about_) != 0) {
    return PosixError("use the observer's programs", dir_ >= kObsMaxDirs ? EINVAL : errno);
  }
  made_before_ = Counted().readers;
  return Ok();
}

obs_state ObserverPrograms::State() const {
  const uint32_t zero = 0;
  obs_state state{};
  (void)bpf_map_lookup_elem(Fd(kObsFdState), &zero, &state);
  return state;
}

// --------------------------------------------------------------------- wants

Status ObserverPrograms::SetConfig(obs_dir config) {
  config.wants_unlisted = config_.wants_unlisted;
  config.wants_execs = config_.wants_execs;
  config.root_dev = config_.root_dev;
  config.root_ino = config_.root_ino;
  config.depth = config_.depth;
  config_ = config;
  if (bpf_map_update_elem(Fd(kObsFdDirs), &dir_, &config, BPF_ANY) != 0) {
    return PosixError("set the observer's wanted events", errno);
  }
  if (own_ != nullptr) return own_->Update();
  const uint64_t one = 1;
  (void)!write(Fd(kObsFdWake), &one, sizeof(one));
  return Ok();
}

Status ObserverPrograms::Watch(const Wants& wants) {
  const std::lock_guard lock(mutex_);
  obs_dir config{};
  config.beacon = wants.beacon_bytes;
  config.is_watched = 1;
  config.wants_trace = wants.trace;
  config.wants_progress = wants.progress;
  config.wants_opens = wants.opens;
  const uint32_t updates_before = State().updates;
  Status set = SetConfig(config);
  if (!set || own_ != nullptr) return set;
  // Programs are attached before this returns, since the caller may read at once.  A busy ppcd is
  // not waited for longer; it attaches later.
  const bool wants_accesses = wants.progress || wants.trace;
  const uint64_t until = MonotonicNs() + kAttachNs;
  while (true) {
    const obs_state state = State();
    if (state.inserts != 0 && (state.accesses != 0 || !wants_accesses)) return Ok();
    // An earlier error belongs to another directory.
    if (state.error != 0 && state.updates != updates_before)
      return PosixError("attach the observer's programs", state.error);
    if (MonotonicNs() > until) return Ok();
    usleep(kAttachLookUs);
  }
}

void ObserverPrograms::SetRoot(const std::string& path, dev_t dev, ino_t ino) {
  const std::lock_guard lock(mutex_);
  config_.root_dev = dev;
  config_.root_ino = ino;
  const obs_root_key key{ino, (major(dev) << 20) | minor(dev), 0};
  (void)bpf_map_update_elem(Fd(kObsFdRoots), &key, &dir_, BPF_ANY);
  config_.depth = static_cast<uint32_t>(std::count(path.begin(), path.end(), '/'));
  (void)SetConfig(config_);
}

void ObserverPrograms::WantUnlisted() {
  const std::lock_guard lock(mutex_);
  config_.wants_unlisted = 1;
  (void)SetConfig(config_);
}

void ObserverPrograms::WantExecs(bool on) {
  const std::lock_guard lock(mutex_);
  if ((config_.wants_execs != 0) == on) return;
  config_.wants_execs = on ? 1 : 0;
  (void)SetConfig(config_);
}

bool ObserverPrograms::AddExecutable(uint64_t ino, uint32_t dev) {
  const obs_exec_key key{ino, dev, dir_};
  const uint32_t one = 1;
  return bpf_map_update_elem(Fd(kObsFdExecutables), &key, &one, BPF_ANY) == 0;
}

void ObserverPrograms::RemoveExecutable(uint64_t ino, uint32_t dev) {
  const obs_exec_key key{ino, dev, dir_};
  (void)bpf_map_delete_elem(Fd(kObsFdExecutables), &key);
}

std::vector<ObserverPrograms::Root> ObserverPrograms::DeeperRoots() {
  const std::lock_guard lock(roots_mutex_);
  const uint64_t now = MonotonicNs();
  if (deeper_ns_ != 0 && now < deeper_ns_ + kNsPerSec) return deeper_;
  deeper_ns_ = now;
  deeper_.clear();
  obs_dir own{};
  if (bpf_map_lookup_elem(Fd(kObsFdDirs), &dir_, &own) != 0) return deeper_;
  for (uint32_t dir = 0; dir < kObsMaxDirs; ++dir) {
    obs_dir other{};
    if (dir == dir_ || bpf_map_lookup_elem(Fd(kObsFdDirs), &dir, &other) != 0) continue;
    if (other.depth > own.depth) deeper_.push_back({other.root_dev, other.root_ino});
  }
  return deeper_;
}

void ObserverPrograms::Unwatch() {
  const std::lock_guard lock(mutex_);
  (void)SetConfig(obs_dir{});
}

// --------------------------------------------------------------------- maps

bool ObserverPrograms::IsDeepers(const obs_inode_key& key) const {
  obs_inode listed{};
  obs_dir own{};
  obs_dir other{};
  return bpf_map_lookup_elem(Fd(kObsFdInodes), &key, &listed) == 0 && listed.dir < kObsMaxDirs &&
         listed.dir != dir_ && bpf_map_lookup_elem(Fd(kObsFdDirs), &dir_, &own) == 0 &&
         bpf_map_lookup_elem(Fd(kObsFdDirs), &listed.dir, &other) == 0 && other.depth > own.depth;
}

std::optional<uint32_t> ObserverPrograms::GenerationOf(const obs_inode_key& key) const {
  obs_inode listed{};
  if (bpf_map_lookup_elem(Fd(kObsFdInodes), &key, &listed) != 0 || listed.dir != dir_)
    return std::nullopt;
  return listed.generation;
}

Status ObserverPrograms::AddInode(const obs_inode_key& key, const obs_inode& inode) {
  if (IsDeepers(key)) return Error{EEXIST, "a file belongs to a directory below this one"};
  if (key.subvolume != 0) {
    // The mark that these files need the subvolume stays until the programs go: another directory
    // may have such a file.
    Status added = AddInode({key.ino, key.dev, 0}, {0, 0, kObsMaxDirs, 0, 0, 1});
    if (!added) return added;
  }
  if (bpf_map_update_elem(Fd(kObsFdInodes), &key, &inode, BPF_ANY) == 0) {
    ForgetReport(key);
    return Ok();
  }
  if (errno != E2BIG) return PosixError("list a file for the observer", errno);
  return Error{ENOSPC,
               "the observer lists at most " + std::to_string(kObsMaxInodes) + " files in all"};
}

// Forgets that this inode was reported, so that its next mismatch is reported again.
void ObserverPrograms::ForgetReport(const obs_inode_key& key) {
  (void)bpf_map_delete_elem(Fd(kObsFdReported), &key);
}

void ObserverPrograms::RemoveInode(const obs_inode_key& key) {
  obs_inode listed{};
  if (bpf_map_lookup_elem(Fd(kObsFdInodes), &key, &listed) == 0 && listed.dir != dir_) return;
  (void)bpf_map_delete_elem(Fd(kObsFdInodes), &key);
  ForgetReport(key);
}

Status ObserverPrograms::AddDevice(uint32_t dev) {
  const obs_device_key key{dev, dir_};
  const uint32_t one = 1;
  if (bpf_map_update_elem(Fd(kObsFdDirDevices), &key, &one, BPF_ANY) != 0 ||
      bpf_map_update_elem(Fd(kObsFdDevices), &dev, &one, BPF_ANY) != 0)
    return PosixError("list a device for the observer", errno);
  return Ok();
}

// The device stays of interest: another directory may be there.
void ObserverPrograms::RemoveDevice(uint32_t dev) {
  const obs_device_key key{dev, dir_};
  (void)bpf_map_delete_elem(Fd(kObsFdDirDevices), &key);
}

void ObserverPrograms::AddOwn(pid_t tgid) {
  const auto key = static_cast<uint32_t>(tgid);
  if (bpf_map_update_elem(Fd(kObsFdOwn), &key, &dir_, BPF_ANY) != 0) {
    Log(LogLevel::kWarning, "process " + std::to_string(tgid) +
                                ", which loads for us, is taken for a reader: " +
                                PosixError("the observer's list", errno).message);
  }
}

void ObserverPrograms::RemoveOwn(pid_t tgid) {
  const auto key = static_cast<uint32_t>(tgid);
  (void)bpf_map_delete_elem(Fd(kObsFdOwn), &key);
}

void ObserverPrograms::EachGathered(
    const std::function<void(const obs_reader_key&, const obs_reader&)>& each) {
  EachReader([&](const obs_reader_key& key, const obs_reader& reader, bool is_whole) {
    if (is_whole) each(key, reader);
  });
}

void ObserverPrograms::EachReader(
    const std::function<void(const obs_reader_key&, const obs_reader&, bool is_whole)>& each) {
  // Reads in batches: the map has the readers of all directories.
  constexpr uint32_t kBatch = 512;
  const int map = Fd(kObsFdReaders);
  std::vector<obs_reader_key> keys(kBatch);
  std::vector<obs_reader> readers(kBatch);
  uint32_t at = 0;
  uint32_t* from = nullptr;
  for (int code = 0; code == 0; from = &at) {
    uint32_t count = kBatch;
    code = bpf_map_lookup_batch(map, from, &at, keys.data(), readers.data(), &count, nullptr);
    if (code != 0 && errno != ENOENT) return;
    for (uint32_t i = 0; i < count; ++i) {
      obs_reader again{};
      if (keys[i].dir != dir_ || bpf_map_lookup_elem(map, &keys[i], &again) != 0) continue;
      // A copy made during a write may mix two positions; a later event reports that access.
      const bool is_whole = readers[i].first == again.first && readers[i].end == again.end &&
                            readers[i].accessed_ns == again.accessed_ns;
      each(keys[i], again, is_whole);
    }
  }
}

void ObserverPrograms::TakeGathered(
    uint64_t now_ns, uint64_t older_ns,
    const std::function<void(const obs_reader_key&, const obs_reader&)>& each) {
  const uint64_t made = Counted().readers - made_before_;
  uint64_t there = 0;
  std::vector<obs_reader_key> old;
  EachReader([&](const obs_reader_key& key, const obs_reader& reader, bool is_whole) {
    ++there;
    if (is_whole && reader.time_ns + older_ns <= now_ns) old.push_back(key);
  });
  // Entries that were made but are neither present nor taken were replaced by other directories'
  // entries, and their pending accesses are lost.
  if (made > taken_ + there) pushed_out_ = std::max<uint64_t>(pushed_out_, made - taken_ - there);
  for (const obs_reader_key& gone : old) {
    obs_reader reader{};
    if (bpf_map_lookup_elem(Fd(kObsFdReaders), &gone, &reader) != 0) continue;
    if (bpf_map_delete_elem(Fd(kObsFdReaders), &gone) == 0) ++taken_;
    each(gone, reader);
  }
}

obs_counts ObserverPrograms::Counts() const {
  obs_counts sum = Counted();
  sum.lost += pushed_out_;
  return sum;
}

uint64_t ObserverPrograms::Skipped() const {
  if (own_ != nullptr) return own_->Skipped();
  const uint64_t one = 1;
  (void)!write(Fd(kObsFdWake), &one, sizeof(one));  // triggers the next Update
  return State().skipped;
}

// Counted by the programs only.
obs_counts ObserverPrograms::Counted() const {
  std::vector<obs_counts> cpus(static_cast<size_t>(libbpf_num_possible_cpus()));
  obs_counts sum{};
  if (bpf_map_lookup_elem(Fd(kObsFdCounts), &dir_, cpus.data()) != 0) return sum;
  for (const obs_counts& cpu : cpus) {
    sum.sent += cpu.sent;
    sum.lost += cpu.lost;
    sum.readers += cpu.readers;
    sum.coalesced += cpu.coalesced;
    sum.wakeups += cpu.wakeups;
    sum.bypassed += cpu.bypassed;
  }
  return sum;
}

Result<std::vector<obs_vma>> ObserverPrograms::OwnMappings() {
  if (!CanLearn()) return Error{ENOTSUP, "this kernel does not show the inodes behind mappings"};
  const std::lock_guard lock(mutex_);
  union bpf_iter_link_info info {};
  info.task.pid = static_cast<uint32_t>(getpid());
  LIBBPF_OPTS(bpf_link_create_opts, options, .iter_info = &info, .iter_info_len = sizeof(info));
  UniqueFd link(bpf_link_create(Fd(kObsFdIterator), 0, BPF_TRACE_ITER, &options));
  // Before 6.1 the iterator shows all tasks; ours are selected by number.
  const bool shows_all = !link.IsValid();
  if (shows_all) link.Reset(bpf_link_create(Fd(kObsFdIterator), 0, BPF_TRACE_ITER, nullptr));
  if (!link.IsValid()) return PosixError("ask the kernel about our mappings", errno);
  const UniqueFd iterator(bpf_iter_create(link.Get()));
  if (!iterator.IsValid()) return PosixError("ask the kernel about our mappings", errno);
  std::vector<obs_vma> found;
  std::array<obs_vma, 256> part;
  char* const bytes = reinterpret_cast<char*>(part.data());
  size_t have = 0;
  while (true) {
    const ssize_t got = read(iterator.Get(), bytes + have, sizeof(part) - have);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got < 0) return PosixError("read the kernel's list of our mappings", errno);
    if (got == 0) return found;
    have += static_cast<size_t>(got);
    const size_t whole = have / sizeof(obs_vma);
    std::copy_if(part.begin(), part.begin() + static_cast<long>(whole), std::back_inserter(found),
                 [&](const obs_vma& vma) { return !shows_all || vma.tgid == getpid(); });
    have -= whole * sizeof(obs_vma);
    std::memmove(bytes, bytes + whole * sizeof(obs_vma), have);
  }
}

}  // namespace ppc
