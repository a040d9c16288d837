// SPDX-License-Identifier: Apache-2.0
// fuzz mnt= [calls=1M] [threads=4] [seed=]: calls of every kind on the device of a mount, shaped by
// the interface and wild, while files are read and mapped and the consumer page is written over.
// Each answer must be one the interface allows, numbers must add up, files must hold the right
// bytes.
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <ppc/uapi.h>
#include <pthread.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

#include "attack.h"
#include "coverage.h"

namespace ppc::attack {

namespace {

constexpr unsigned kSlots = 3;      // descriptors of the device each thread has
constexpr size_t kArgument = 8192;  // a page to write to, then one that is not there

struct Target {
  std::string device;
  std::string mnt;
  std::vector<std::string> files;  // names below mnt
  uint64_t bytes = 0;              // of each file
  std::atomic<int64_t> left{0};    // calls still to make
  std::atomic<bool> failed{false};
  std::atomic<uint64_t> by_errno[200] = {};
  std::array<std::atomic<uint64_t>, 64> ids{};  // file ids seen
  std::mutex mutex;                             // of standard output

  void Fail(const std::string& text) {
    const std::lock_guard lock(mutex);
    if (!failed.exchange(true)) std::printf("FAIL: %s\n", text.c_str());
  }
};

class Fuzzer {
 public:
  Fuzzer(Target* target, uint64_t seed) : target_(target), rng_(seed), slots_(kSlots) {
    void* memory =
        mmap(nullptr, kArgument + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    argument_ = static_cast<char*>(memory);
    mprotect(argument_ + kArgument, 4096, PROT_NONE);
    readonly_ =
        static_cast<char*>(mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    for (unsigned i = 0; i < kSlots; ++i) Reopen(i);
  }
  ~Fuzzer() {
    for (Slot& slot : slots_) slot.Unmap();
    munmap(argument_, kArgument + 4096);
    munmap(readonly_, 4096);
  }
  Fuzzer(const Fuzzer&) = delete;
  Fuzzer& operator=(const Fuzzer&) = delete;

  void Run() {
    Coverage coverage;
    for (uint64_t n = 1; !target_->failed && target_->left.fetch_sub(1) > 0; ++n) {
      One();
      if (n % 256 == 0) coverage.Collect();
      // Somebody must consume sometimes, or every ring is full for ever.
      if (rng_.OneIn(50)) Scribble();
    }
  }

 private:
  struct Slot {
    Fd fd;
    char* consumer = nullptr;
    uint64_t consumer_bytes = 0;
    char* rings = nullptr;
    uint64_t rings_bytes = 0;

    void Unmap() {
      if (consumer) munmap(consumer, consumer_bytes);
      if (rings) munmap(rings, rings_bytes);
      consumer = rings = nullptr;
    }
  };

  // --- values

  uint64_t Number() {
    switch (rng_.Below(8)) {
      case 0:
        return rng_.Next();
      case 1:
        return rng_.Of({0, 1, 7, 8, 4095, 4096, 4097, 1U << 20, 0x7fffffff, 0x80000000, 0xffffffff,
                        1ULL << 32, 1ULL << 40, (1ULL << 40) + 1, 0x7fffffffffffffff,
                        0x7ffffffffffff000, 0x8000000000000000, 0xfffffffffffff000, ~0ULL});
      case 2:
        return target_->bytes + rng_.Below(3) * 4096 - 4096;
      default:
        return rng_.Below(target_->bytes / 4096 + 1) * 4096 +
               (rng_.OneIn(4) ? rng_.Below(4096) : 0);
    }
  }
  // Mostly small: a call over a whole file is worth a hundred others.
  uint64_t Length() { return rng_.OneIn(8) ? Number() : rng_.Below(33) * 4096 + rng_.Below(2); }
  uint32_t Flags(uint32_t known) {
    return static_cast<uint32_t>(rng_.OneIn(16) ? rng_.Next() : rng_.Next() & known);
  }
  uint64_t Mostly0() { return rng_.OneIn(32) ? rng_.Next() : 0; }
  uint64_t FileId() {
    if (rng_.OneIn(16)) return rng_.Of({0, ~0ULL, rng_.Next(), rng_.Below(4096)});
    return target_->ids[rng_.Below(target_->ids.size())];
  }
  uint64_t Pointer(char* good) {
    if (!rng_.OneIn(12)) return reinterpret_cast<uintptr_t>(good);
    return rng_.Of({0, 1, reinterpret_cast<uintptr_t>(readonly_),
                    reinterpret_cast<uintptr_t>(argument_ + kArgument - rng_.Below(64)),
                    reinterpret_cast<uintptr_t>(argument_ + kArgument), 0xffff888000000000,
                    0xffffffff81000000, 0x00007ffffffff000, rng_.Next()});
  }
  const std::string& File() { return target_->files[rng_.Below(target_->files.size())]; }
  Slot& AnySlot() { return slots_[rng_.Below(kSlots)]; }

  // --- calls

  // Counts the answer; returns the errno, 0 for success.
  int Count(long result) {
    const int error = result < 0 ? errno : 0;
    if (error < 200) ++target_->by_errno[error];
    return error;
  }

  // An ioctl whose answers are known.
  int Call(unsigned long request, void* arg, std::initializer_list<int> allowed) {
    const bool bad = rng_.OneIn(24);
    const uint64_t pointer =
        bad ? Pointer(static_cast<char*>(arg)) : reinterpret_cast<uintptr_t>(arg);
    const int error = Count(ioctl(AnySlot().fd.get(), request, pointer));
    if (error && !(bad && error == EFAULT) &&
        std::find(allowed.begin(), allowed.end(), error) == allowed.end()) {
      target_->Fail("ioctl " + std::to_string(_IOC_NR(request)) + " gave " +
                    strerrorname_np(error));
    }
    // A bad pointer may have been a good one; then nothing is in arg.
    return bad ? EFAULT : error;
  }
  void Must(bool holds, const char* what) {
    if (!holds) target_->Fail(what);
  }

  void Reopen(unsigned index) {
    Slot& slot = slots_[index];
    slot.Unmap();
    slot.fd =
        Fd(open(target_->device.c_str(), O_RDWR | O_CLOEXEC | (rng_.OneIn(2) ? O_NONBLOCK : 0)));
    if (Count(slot.fd.get())) target_->Fail("opening the device");
  }

  void Attach() {
    Slot& slot = AnySlot();
    ppc_attach attach{};
    attach.flags = Flags(15);
    attach.lease_ms = static_cast<uint32_t>(rng_.OneIn(8) ? rng_.Next() : 100 + rng_.Below(2000));
    if (rng_.OneIn(2)) attach.window_bytes = 1U << (12 + rng_.Below(15));
    if (rng_.OneIn(2)) attach.beacon_bytes = 1U << (14 + rng_.Below(18));
    const uint64_t label = rng_.OneIn(16) ? ~0ULL : 'f';
    std::memset(attach.label, 0, sizeof(attach.label));
    std::memcpy(attach.label, &label, sizeof(label));
    attach.reserved[rng_.Below(2)] = Mostly0();
    const int error = Count(ioctl(slot.fd.get(), PPC_IOC_ATTACH, &attach));
    if (error) return Must(error == EBUSY || error == EINVAL, "ATTACH gave an unknown error");
    Must(attach.ring_entries >= 64 && attach.nr_rings > 0 && attach.consumer_bytes > 0,
         "ATTACH described no rings");
    if (slot.consumer) return;
    slot.consumer_bytes = attach.consumer_bytes;
    slot.rings_bytes = attach.nr_rings * attach.ring_stride;
    slot.consumer = Map(slot, slot.consumer_bytes, PROT_READ | PROT_WRITE, PPC_MMAP_CONSUMER);
    slot.rings = Map(slot, slot.rings_bytes, PROT_READ, PPC_MMAP_RINGS);
    Must(slot.consumer && slot.rings, "the rings cannot be mapped");
  }
  char* Map(const Slot& slot, uint64_t bytes, int protection, uint64_t offset) {
    void* map =
        mmap(nullptr, bytes, protection, MAP_SHARED, slot.fd.get(), static_cast<off_t>(offset));
    return Count(map == MAP_FAILED ? -1 : 0) ? nullptr : static_cast<char*>(map);
  }

  // Hostile indices: anything, anywhere in the consumer page; now and then what is right.
  void Scribble() {
    Slot& slot = AnySlot();
    if (!slot.consumer) return;
    auto* words = reinterpret_cast<uint32_t*>(slot.consumer);
    for (uint64_t i = 0; i < slot.consumer_bytes / 4; ++i) {
      std::atomic_ref<uint32_t>(words[i]).store(static_cast<uint32_t>(Number()),
                                                std::memory_order_relaxed);
    }
    if (!rng_.OneIn(3)) return;
    const auto* head = reinterpret_cast<const ppc_ring_head*>(slot.rings);
    auto* tails = reinterpret_cast<ppc_ring_tail*>(slot.consumer + sizeof(ppc_consumer));
    tails[0].tail = head->head - static_cast<uint32_t>(rng_.Below(3));
  }

  void Load() {
    ppc_load load{};
    load.file_id = FileId();
    load.offset = Number();
    load.length = Length();
    load.flags = Flags(PPC_LOAD_WAIT);
    load.charge = static_cast<uint32_t>(rng_.OneIn(8) ? rng_.Below(4) : 0);
    load.cancel_slot = static_cast<uint32_t>(rng_.OneIn(2) ? rng_.Below(66) : PPC_CANCEL_NONE);
    load.generation = rng_.Below(1000);
    load.pad = static_cast<uint32_t>(Mostly0());
    load.reserved[1] = Mostly0();
    const uint64_t length = load.length;
    if (Call(PPC_IOC_LOAD, &load, {EINVAL, ESTALE, EISDIR, EBADF})) return;
    Must(load.stop <= PPC_STOP_NOMEM && load.done <= length, "LOAD stopped nowhere");
    if (load.flags & PPC_LOAD_WAIT) {
      if (load.stop != PPC_STOP_SIGNAL) {
        Must(load.loaded + load.failed == load.submitted, "LOAD: loaded and failed do not add up");
      }
    } else {
      Must(load.loaded == 0 && load.failed == 0, "LOAD without WAIT says loaded");
    }
  }

  void Evict() {
    ppc_evict evict{};
    evict.file_id = FileId();
    evict.offset = Number();
    evict.length = Length();
    evict.flags = Flags(rng_.OneIn(32) ? 7 : 3);
    evict.pad = static_cast<uint32_t>(Mostly0());
    evict.reserved[0] = Mostly0();
    if (Call(PPC_IOC_EVICT, &evict, {EINVAL, ESTALE, EISDIR})) return;
    Must(evict.asked == evict.dropped + evict.mapped + evict.dirty + evict.locked + evict.busy,
         "EVICT: the numbers do not add up");
  }

  void Resident() {
    ppc_resident resident{};
    resident.file_id = FileId();
    resident.offset = Number();
    resident.length = Length();
    if (rng_.OneIn(2)) {
      resident.bitmap = Pointer(argument_);
      resident.bitmap_bytes = rng_.OneIn(8) ? rng_.Next() : kArgument;
    }
    if (Call(PPC_IOC_RESIDENT, &resident, {EINVAL, ESTALE, EISDIR, EFAULT, EINTR})) return;
    uint64_t nodes = 0;
    for (const uint64_t bytes : resident.node) nodes += bytes;
    Must(nodes == resident.resident && resident.dirty == 0, "RESIDENT: the nodes do not add up");
  }

  void Lookup() {
    static const char* const kNames[] = {"..",   ".",         "",         "/",
                                         "a0/",  "a0/x",      "none",     "dir",
                                         "link", "dir/../a0", "dir//a20", "../etc/passwd"};
    ppc_file file{};
    std::string name = rng_.OneIn(3) ? kNames[rng_.Below(std::size(kNames))] : File();
    if (rng_.OneIn(16)) name.assign(rng_.Below(4500), 'x');
    if (rng_.OneIn(16))
      name[rng_.Below(name.size() + 1) % std::max<size_t>(name.size(), 1)] = '\xff';
    name.resize(std::min<size_t>(name.size(), kArgument - 1));
    std::memcpy(argument_, name.c_str(), name.size() + 1);
    file.name = Pointer(argument_);
    file.name_bytes = static_cast<uint32_t>(rng_.OneIn(8) ? rng_.Next() : name.size() + 1);
    file.flags = static_cast<uint32_t>(Mostly0());
    file.reserved[0] = Mostly0();
    if (Call(PPC_IOC_LOOKUP, &file,
             {EINVAL, ENOENT, ENOTDIR, EISDIR, ELOOP, ENAMETOOLONG, EFAULT, ESTALE})) {
      return;
    }
    Must(file.size == target_->bytes, "LOOKUP: the size is wrong");
    target_->ids[rng_.Below(target_->ids.size())] = file.file_id;
  }

  void Name() {
    ppc_file file{};
    file.file_id = FileId();
    file.name = Pointer(argument_);
    file.name_bytes = static_cast<uint32_t>(rng_.OneIn(4) ? rng_.Below(16) : kArgument / 2);
    file.flags = static_cast<uint32_t>(Mostly0());
    Call(PPC_IOC_FILE, &file, {EINVAL, ESTALE, ENOENT, ENAMETOOLONG, EFAULT, EISDIR});
  }

  void Wild() {
    // Type and direction of ours, of others, and anything; never another device's: the descriptor
    // is always one of ours.
    for (size_t i = 0; i < 1024; i += 8) {
      const uint64_t value = rng_.OneIn(2) ? 0 : Number();
      std::memcpy(argument_ + i, &value, 8);
    }
    static constexpr unsigned long kOurs[] = {PPC_IOC_INFO,   PPC_IOC_ATTACH,   PPC_IOC_DETACH,
                                              PPC_IOC_FILE,   PPC_IOC_LOOKUP,   PPC_IOC_LOAD,
                                              PPC_IOC_CANCEL, PPC_IOC_EVICT,    PPC_IOC_RESIDENT,
                                              PPC_IOC_CHARGE, PPC_IOC_FILE_MODE};
    unsigned long request = kOurs[rng_.Below(std::size(kOurs))];
    if (rng_.OneIn(2)) request ^= 1UL << rng_.Below(32);
    if (rng_.OneIn(8)) request = rng_.Next() & 0xffffffff;
    Count(ioctl(AnySlot().fd.get(), request, Pointer(argument_)));
  }

  void DeviceMap() {
    const Slot& slot = AnySlot();
    const uint64_t bytes = rng_.OneIn(4) ? Number() & 0xffffffffff : (1 + rng_.Below(80)) * 4096;
    const uint64_t offset = rng_.Of({0, 4096, PPC_MMAP_CONSUMER, PPC_MMAP_CONSUMER + 4096,
                                     PPC_MMAP_CONSUMER - 4096, rng_.Next() & 0x7ffffffffffff000});
    const int protection = static_cast<int>(rng_.Below(8));
    void* map = mmap(nullptr, bytes, protection, rng_.OneIn(4) ? MAP_PRIVATE : MAP_SHARED,
                     slot.fd.get(), static_cast<off_t>(offset));
    if (Count(map == MAP_FAILED ? -1 : 0)) return;
    auto* byte = static_cast<volatile char*>(map);
    if (protection & PROT_READ) (void)byte[rng_.Below(std::min<uint64_t>(bytes, 1 << 20))];
    if (rng_.OneIn(4)) Count(mprotect(map, bytes, PROT_READ | PROT_WRITE));
    if (rng_.OneIn(4)) Count(madvise(map, bytes, static_cast<int>(rng_.Below(24))));
    munmap(map, bytes);
  }

  void Descriptor() {
    const int fd = AnySlot().fd.get();
    pollfd request{fd, static_cast<short>(rng_.Next()), 0};
    switch (rng_.Below(6)) {
      case 0:
        Count(poll(&request, 1, rng_.OneIn(20) ? 1 : 0));
        break;
      case 1:
        Must(Count(read(fd, argument_, rng_.Below(kArgument))) != 0, "read() of the device");
        break;
      case 2:
        Must(Count(write(fd, argument_, rng_.Below(kArgument))) != 0, "write() to the device");
        break;
      case 3:
        Count(lseek(fd, static_cast<off_t>(Number()), static_cast<int>(rng_.Below(5))));
        break;
      case 4:
        Count(posix_fadvise(fd, 0, 0, static_cast<int>(rng_.Below(6))) ? -1 : 0);
        break;
      default:
        if (rng_.OneIn(10)) Reopen(static_cast<unsigned>(rng_.Below(kSlots)));
    }
  }

  void Small() {
    ppc_info info{};
    ppc_cancel cancel{};
    ppc_charge charge{};
    ppc_file_mode mode{};
    switch (rng_.Below(6)) {
      case 0:
        Call(PPC_IOC_INFO, &info, {});
        break;
      case 1:
        Call(PPC_IOC_DETACH, nullptr, {ENOTCONN});
        break;
      case 2:
      case 3:
        cancel.slot = static_cast<uint32_t>(rng_.Below(66));
        cancel.generation = rng_.OneIn(8) ? rng_.Next() : rng_.Below(1000);
        Call(PPC_IOC_CANCEL, &cancel, {EINVAL});
        break;
      case 4:
        charge.cgroup_fd = rng_.OneIn(2) ? cgroup_.get() : static_cast<int>(rng_.Below(40)) - 2;
        charge.flags = static_cast<uint32_t>(Mostly0());
        if (!rng_.OneIn(20)) charge.pad = 1;  // few handles: they belong to the descriptor
        Call(PPC_IOC_CHARGE, &charge, {EINVAL, EBADF, EOPNOTSUPP, ENOENT, ENOSPC, EPERM, ENODEV});
        break;
      default:
        mode.file_id = FileId();
        mode.mode = static_cast<uint32_t>(rng_.Below(3));
        mode.pad = static_cast<uint32_t>(Mostly0());
        Call(PPC_IOC_FILE_MODE, &mode, {EINVAL, ESTALE, EISDIR});
    }
  }

  // What an application does; this is where the events come from.
  void Application() {
    const std::string path = target_->mnt + "/" + File();
    const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | (rng_.OneIn(8) ? O_DIRECT : 0)));
    if (Count(fd.get())) return Must(errno == EINVAL, "a file cannot be opened");
    const uint64_t seed = SeedOfName(path);
    const uint64_t at = rng_.Below(target_->bytes / 4096) * 4096;
    const size_t n = std::min<uint64_t>((1 + rng_.Below(16)) * 4096, target_->bytes - at);
    Verdict verdict = Verdict::kRight;
    if (rng_.OneIn(2)) {
      verdict = CheckRead(fd.get(), seed, at, n);
      if (verdict == Verdict::kError && errno == EINVAL) verdict = Verdict::kRight;  // O_DIRECT
    } else {
      void* map = mmap(nullptr, target_->bytes, PROT_READ | (rng_.OneIn(4) ? PROT_WRITE : 0),
                       MAP_PRIVATE | (rng_.OneIn(64) ? MAP_POPULATE : 0), fd.get(), 0);
      if (Count(map == MAP_FAILED ? -1 : 0)) return Must(false, "a file cannot be mapped");
      if (rng_.OneIn(16)) Count(madvise(map, target_->bytes, static_cast<int>(rng_.Below(4))));
      if (rng_.OneIn(64)) Count(mlock(static_cast<char*>(map) + at, n));
      verdict = CheckMapped(static_cast<std::byte*>(map), seed, at, n);
      munmap(map, target_->bytes);
    }
    Must(verdict == Verdict::kRight, "wrong bytes through the mount");
  }

  void One() {
    const uint64_t choice = rng_.Below(100);
    if (choice < 14) return Load();
    if (choice < 28) return Evict();
    if (choice < 38) return Resident();
    if (choice < 50) return Lookup();
    if (choice < 58) return Name();
    if (choice < 72) return Small();
    if (choice < 74) return Attach();
    if (choice < 88) return Wild();
    if (choice < 91) return DeviceMap();
    if (choice < 96) return Descriptor();
    Application();
  }

  Target* target_;
  Rng rng_;
  std::vector<Slot> slots_;
  Fd cgroup_{open("/sys/fs/cgroup", O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  char* argument_ = nullptr;
  char* readonly_ = nullptr;
};

void ListFiles(Target* target) {
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(opendir(target->mnt.c_str()), closedir);
  while (const dirent* entry = dir ? readdir(dir.get()) : nullptr) {
    const std::string name = entry->d_name;
    struct stat status {};
    if (name[0] != 'a' || stat((target->mnt + "/" + name).c_str(), &status)) continue;
    target->files.push_back(name);
    target->bytes = static_cast<uint64_t>(status.st_size);
  }
  std::sort(target->files.begin(), target->files.end());
}

}  // namespace

int Fuzz(const Words& words) {
  Target target;
  target.mnt = words.TextOption("mnt");
  ListFiles(&target);
  const int number = DeviceOf(target.mnt);
  if (number < 0 || target.files.empty()) {
    std::printf("FAIL: no ppc mount with files on %s\n", target.mnt.c_str());
    return 1;
  }
  target.device = "/dev/ppc" + std::to_string(number);
  const auto calls = static_cast<int64_t>(words.Option("calls", 1000000));
  const uint64_t seed = words.Option("seed", static_cast<uint64_t>(time(nullptr)));
  std::printf("fuzz seed=%lu calls=%ld threads=%lu\n", seed, calls, words.Option("threads", 4));
  target.left = calls;
  CatchSigbus();
  signal(SIGUSR1, [](int) {});
  struct sigaction interrupt {};
  interrupt.sa_handler = [](int) {};
  sigaction(SIGUSR1, &interrupt, nullptr);
  {
    std::vector<std::jthread> threads;
    for (uint64_t i = 0; i < words.Option("threads", 4); ++i) {
      threads.emplace_back([&target, seed, i] { Fuzzer(&target, seed * 64 + i).Run(); });
    }
    // Signals end waiting; a thread that has ended is still there to be joined.
    Rng rng(seed + 99);
    while (target.left > 0 && !target.failed) {
      usleep(static_cast<useconds_t>(1000 + rng.Below(20000)));
      pthread_kill(threads[rng.Below(threads.size())].native_handle(), SIGUSR1);
    }
  }
  std::string answers;
  for (int error = 0; error < 200; ++error) {
    if (const uint64_t n = target.by_errno[error]) {
      answers +=
          std::string(" ") + (error ? strerrorname_np(error) : "ok") + "=" + std::to_string(n);
    }
  }
  std::printf("answers%s\n", answers.c_str());
  std::printf("events queued=%lu dropped=%lu misses=%lu coverage=%zu\n",
              Counter(number, "events_queued"), Counter(number, "events_dropped"),
              Counter(number, "misses_read") + Counter(number, "misses_fault"), Coverage::Total());
  return target.failed ? 1 : 0;
}

}  // namespace ppc::attack
