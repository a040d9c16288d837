// SPDX-License-Identifier: Apache-2.0
// failnth base= mnt= [module=] [only=]: for each operation, once for each N until nothing is left
// to fail: the Nth allocation (slab, page) or user copy that the call makes fails.  The answer must
// be success or ENOMEM (EFAULT for a user copy), bytes must be right, and the same call must work
// when nothing fails.  Needs a kernel with fault injection.
#include <dirent.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <ppc/uapi.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include "attack.h"
#include "failing_calls.h"

namespace ppc::attack {

namespace {

constexpr uint64_t kPiece = 256 << 10;

class Walker : public FailingCalls {
 public:
  explicit Walker(const Words& words)
      : FailingCalls(words.TextOption("only")),
        base_(words.TextOption("base")),
        mnt_(words.TextOption("mnt")),
        module_(words.TextOption("module")),
        all_(words.TextOption("only").empty()) {}

  int Run() {
    if (!CanFail()) {
      std::printf("SKIP: this kernel has no fault injection\n");
      return 77;
    }
    CatchSigbus();
    if (!module_.empty()) Module();
    Walk(
        "mount", [] { return true; }, [this] { return Mount(base_, mnt_, "queue=256"); },
        [this](int error) {
          return error || (DeviceOf(mnt_) >= 0 && umount2(mnt_.c_str(), 0) == 0);
        });
    Walk(
        "umount", [this] { return Mount(base_, mnt_, "queue=256") == 0; },
        [this] { return umount2(mnt_.c_str(), 0) ? errno : 0; },
        [this](int error) { return !error || umount2(mnt_.c_str(), 0) == 0; });
    if (Mount(base_, mnt_, "queue=256")) good_ = false;
    Files();
    Device();
    if (umount2(mnt_.c_str(), 0)) {
      std::printf("FAIL: umount at the end: %s\n", strerror(errno));
      good_ = false;
    }
    std::printf("failnth operations=%d injected=%lu\n", operations_, injected_);
    return good_ && NothingLeft("at the end") ? 0 : 1;
  }

 private:
  static bool Yes() { return true; }

  void Module() {
    Walk(
        "insmod",
        [] { return syscall(SYS_delete_module, "ppc", O_NONBLOCK) == 0 || errno == ENOENT; },
        [this] {
          const Fd file(open(module_.c_str(), O_RDONLY | O_CLOEXEC));
          if (!file) return errno;
          const long result = syscall(SYS_finit_module, file.get(), "", 0);
          // A string that cannot be copied is a parameter that cannot be read.
          return result ? errno : 0;
        },
        [](int) { return true; });
  }

  // --- files

  bool Cold(const std::string& name) {
    const Fd fd(open((base_ + "/" + name).c_str(), O_RDONLY | O_CLOEXEC));
    return fd && posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED) == 0;
  }
  bool Open(int flags = 0) {
    file_ = Fd(open((mnt_ + "/a0").c_str(), O_RDONLY | O_CLOEXEC | flags));
    return Cold("a0") && file_;
  }
  // A name that was not looked up before.
  std::string Fresh() const { return "many/f" + std::to_string(round_); }

  void Files() {
    if (syscall(SYS_io_setup, 1, &aio_)) good_ = false;
    struct stat status {};
    auto warm = [](int) { return true; };
    Walk(
        "stat", Yes, [&] { return stat((mnt_ + "/" + Fresh()).c_str(), &status) ? errno : 0; },
        [&](int) { return stat((mnt_ + "/" + Fresh()).c_str(), &status) == 0; });
    Walk(
        "open", Yes,
        [&] {
          file_ = Fd(open((mnt_ + "/many/g" + std::to_string(round_)).c_str(), O_RDONLY));
          return file_ ? 0 : errno;
        },
        warm);
    Walk(
        "opendir", Yes,
        [&] {
          const std::unique_ptr<DIR, int (*)(DIR*)> dir(opendir(mnt_.c_str()), closedir);
          return dir && readdir(dir.get()) ? 0 : errno;
        },
        warm);
    char text[256];
    Walk(
        "readlink", Yes,
        [&] { return readlink((mnt_ + "/link").c_str(), text, sizeof(text)) < 0 ? errno : 0; },
        warm);
    Walk(
        "xattr", Yes,
        [&] {
          return getxattr((mnt_ + "/a0").c_str(), "user.test", text, sizeof(text)) < 0 ? errno : 0;
        },
        warm);
    struct statfs fs {};
    Walk(
        "statfs", Yes, [&] { return statfs(mnt_.c_str(), &fs) ? errno : 0; }, warm);
    Walk(
        "remount", Yes,
        [&] {
          return mount("", mnt_.c_str(), "ppc", MS_REMOUNT | MS_RDONLY, "window=64K") ? errno : 0;
        },
        warm);
    // Reads and faults, without a consumer and with each kind of consumer.
    for (const uint32_t flags : {16U, 0U, 1U, 2U, 15U}) {
      const Fd device(flags < 16 ? open(DevicePath().c_str(), O_RDWR | O_CLOEXEC) : -1);
      ppc_attach attach{};
      attach.flags = flags;
      attach.lease_ms = 600000;
      if (device && ioctl(device.get(), PPC_IOC_ATTACH, &attach)) good_ = false;
      const std::string mode = flags < 16 ? "/attached" + std::to_string(flags) : "/native";
      Walk(
          "read" + mode, [this] { return Open(); }, [this] { return ReadPiece(); },
          [this](int) { return ReadPiece() == 0; });
      Walk(
          "fault" + mode, [this] { return Open() && MapPiece(); }, [this] { return Touch(); },
          [this](int) { return Touch() == 0 && munmap(map_, kPiece) == 0; });
      Walk(
          "splice" + mode, [this] { return Open(); }, [this] { return Splice(); },
          [](int) { return true; });
    }
    Walk(
        "mmap", [this] { return Open(); }, [this] { return MapPiece() ? 0 : errno; },
        [this](int error) { return error || munmap(map_, kPiece) == 0; });
    Walk(
        "fork", [this] { return Open() && MapPiece() && Touch() == 0; },
        [] {
          const pid_t pid = fork();
          if (pid == 0) _exit(0);
          if (pid < 0) return errno == EAGAIN ? ENOMEM : errno;
          waitpid(pid, nullptr, 0);
          return 0;
        },
        [this](int) { return munmap(map_, kPiece) == 0; });
    Walk(
        "aio", [this] { return Open(O_DIRECT); }, [this] { return ReadDirect(); },
        [this](int) { return ReadDirect() == 0; });
    Handles();
    file_ = Fd();
  }
  // An asynchronous direct read, past the page cache.
  int ReadDirect() {
    const std::unique_ptr<std::byte, void (*)(void*)> buffer(
        static_cast<std::byte*>(std::aligned_alloc(4096, kPiece)), std::free);
    iocb request{};
    request.aio_lio_opcode = IOCB_CMD_PREAD;
    request.aio_fildes = static_cast<uint32_t>(file_.get());
    request.aio_buf = reinterpret_cast<uintptr_t>(buffer.get());
    request.aio_nbytes = kPiece;
    iocb* list[] = {&request};
    if (syscall(SYS_io_submit, aio_, 1, list) != 1) return errno == EAGAIN ? ENOMEM : errno;
    io_event event{};
    while (syscall(SYS_io_getevents, aio_, 1, 1, &event, nullptr) != 1) {
      if (errno != EINTR && errno != EFAULT) return errno;
    }
    if (event.res < 0) return static_cast<int>(-event.res);
    return Right(0, 0, {buffer.get(), static_cast<size_t>(event.res)}) ? 0 : EBADMSG;
  }
  // The kernel says ESTALE of a handle whenever something but ENOMEM came in between.
  void Handles() {
    alignas(file_handle) std::array<char, sizeof(file_handle) + MAX_HANDLE_SZ> space{};
    auto* handle = reinterpret_cast<file_handle*>(space.data());
    const Fd mnt(open(mnt_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    int id = 0;
    auto take = [&] {
      handle->handle_bytes = MAX_HANDLE_SZ;
      return name_to_handle_at(AT_FDCWD, (mnt_ + "/a0").c_str(), handle, &id, 0) ? errno : 0;
    };
    Walk("handle", Yes, take, [&](int) { return take() == 0; });
    if (take()) good_ = false;
    Walk(
        "openhandle",
        [&] {
          WriteText("/proc/sys/vm/drop_caches", "2");
          return true;
        },
        [&] {
          file_ = Fd(open_by_handle_at(mnt.get(), handle, O_RDONLY | O_CLOEXEC));
          return file_ ? 0 : errno == ESTALE ? ENOMEM : errno;
        },
        [&](int) {
          file_ = Fd(open_by_handle_at(mnt.get(), handle, O_RDONLY | O_CLOEXEC));
          const bool right = file_ && ReadPiece() == 0;
          file_ = Fd();
          return right;
        });
  }
  int ReadPiece() {
    switch (CheckRead(file_.get(), 0, 0, kPiece)) {
      case Verdict::kRight:
      case Verdict::kShort:  // some bytes were copied before the failure, and are right
        return 0;
      case Verdict::kWrong:
        return EBADMSG;
      case Verdict::kError:
        break;
    }
    return errno;
  }
  bool MapPiece() {
    map_ = static_cast<std::byte*>(mmap(nullptr, kPiece, PROT_READ, MAP_PRIVATE, file_.get(), 0));
    return map_ != MAP_FAILED;
  }
  int Touch() {
    // The kernel tries a fault again that had no memory.
    return CheckMapped(map_, 0, 0, kPiece) == Verdict::kRight ? 0 : EBADMSG;
  }
  int Splice() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC)) return errno == ENFILE ? ENOMEM : errno;
    const Fd in(ends[0]), out(ends[1]);
    loff_t at = 0;
    return splice(file_.get(), &at, out.get(), nullptr, 65536, 0) < 0 ? errno : 0;
  }

  // --- the device

  std::string DevicePath() const { return "/dev/ppc" + std::to_string(DeviceOf(mnt_)); }
  int Call(unsigned long request, void* argument) {
    if (!ioctl(device_.get(), request, argument)) return 0;
    if (errno == ENOMEM) nomem_++;
    return errno;
  }
  uint64_t RefusedForMemory() const {
    std::ifstream in("/sys/fs/ppc/" + std::to_string(DeviceOf(mnt_)) + "/refused_nomem");
    uint64_t count = UINT64_MAX;
    in >> count;
    return count;
  }
  bool OpenDevice() {
    device_ = Fd();
    device_ = Fd(open(device_path_.c_str(), O_RDWR | O_CLOEXEC));
    return static_cast<bool>(device_);
  }

  void Device() {
    device_path_ = DevicePath();
    const uint64_t refused = RefusedForMemory() - nomem_;
    auto any = [](int) { return true; };
    Walk(
        "dev/open", Yes, [this] { return OpenDevice() ? 0 : errno; }, any);
    ppc_attach attach{};
    attach.flags = 15;
    attach.lease_ms = 600000;
    Walk(
        "dev/attach", [this] { return OpenDevice(); },
        [&] { return Call(PPC_IOC_ATTACH, &attach); },
        [&](int) { return Call(PPC_IOC_ATTACH, &attach) == 0; });
    Walk(
        "dev/mmap", Yes,
        [&] {
          void* map = mmap(nullptr, attach.nr_rings * attach.ring_stride, PROT_READ, MAP_SHARED,
                           device_.get(), 0);
          if (map == MAP_FAILED) return errno;
          return munmap(map, attach.nr_rings * attach.ring_stride) ? errno : 0;
        },
        any);
    ppc_file file{};
    char name[PPC_NAME_MAX_BYTES] = "";
    Walk(
        "dev/lookup", Yes,
        [&] {
          std::snprintf(name, sizeof(name), "many/h%d", round_);
          file = {};
          file.name = reinterpret_cast<uintptr_t>(name);
          file.name_bytes = sizeof(name);
          return Call(PPC_IOC_LOOKUP, &file);
        },
        any);
    file = {};
    std::strcpy(name, "a0");
    file.name = reinterpret_cast<uintptr_t>(name);
    file.name_bytes = sizeof(name);
    if (OpenDevice() && Call(PPC_IOC_LOOKUP, &file)) good_ = false;
    const uint64_t id = file.file_id;
    // The name must keep its inode.
    const Fd held(open((mnt_ + "/a0").c_str(), O_RDONLY | O_CLOEXEC));
    Walk(
        "dev/file", Yes, [&] { return Call(PPC_IOC_FILE, &file); }, any);
    ppc_charge charge{};
    const Fd group(open("/sys/fs/cgroup", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    Walk(
        "dev/charge", Yes,
        [&] {
          charge = {};
          charge.cgroup_fd = group.get();
          return Call(PPC_IOC_CHARGE, &charge);
        },
        any);
    // Only started, waited for, and charged to a cgroup.
    for (const auto& [flags, handle] : {std::pair{0U, 0U}, {1U, 0U}, {1U, charge.handle}}) {
      ppc_load load{};
      Walk(
          "dev/load" + std::to_string(flags) + (handle ? "/charged" : ""),
          [this] { return Cold("a0"); },
          [&] {
            load = {};
            load.file_id = id;
            load.length = 1 << 20;
            load.flags = flags;
            load.charge = handle;
            load.cancel_slot = PPC_CANCEL_NONE;
            return Call(PPC_IOC_LOAD, &load);
          },
          [&](int error) {
            return error || !flags || load.loaded + load.failed == load.submitted;
          });
    }
    ppc_evict evict{};
    Walk(
        "dev/evict", [this] { return Open() && ReadPiece() == 0; },
        [&] {
          evict = {};
          evict.file_id = id;
          evict.length = 1 << 20;
          evict.flags = PPC_EVICT_UNMAP | PPC_EVICT_DRAIN;
          return Call(PPC_IOC_EVICT, &evict);
        },
        any);
    ppc_resident resident{};
    Walk(
        "dev/resident", Yes,
        [&] {
          resident = {};
          resident.file_id = id;
          resident.bitmap = reinterpret_cast<uintptr_t>(name);
          resident.bitmap_bytes = sizeof(name);
          return Call(PPC_IOC_RESIDENT, &resident);
        },
        any);
    ppc_info info{};
    Walk(
        "dev/info", Yes, [&] { return Call(PPC_IOC_INFO, &info); }, any);
    Walk(
        "dev/close", [this] { return OpenDevice(); }, [this] { return device_ = Fd(), 0; }, any);
    const uint64_t counted = RefusedForMemory() - refused;
    if (counted != nomem_ || (all_ && !nomem_)) {
      std::printf("FAIL: refused_nomem is %llu after %llu ioctls said ENOMEM\n",
                  static_cast<unsigned long long>(counted),
                  static_cast<unsigned long long>(nomem_));
      good_ = false;
    }
    file_ = Fd();
  }

  std::string base_, mnt_, module_, device_path_;
  bool all_;
  Fd file_, device_;
  uint64_t nomem_ = 0;  // ioctls that said ENOMEM
  aio_context_t aio_ = 0;
  std::byte* map_ = nullptr;
};

}  // namespace

int FailNth(const Words& words) { return Walker(words).Run(); }

}  // namespace ppc::attack
