// SPDX-License-Identifier: Apache-2.0
// mountfuzz base= mnt= [count=3000] [seed=]: mounts with valid, invalid and huge options, sources
// and targets, by mount(2) and by the fs context calls.  Each answer must be one that is
// documented, and what can be mounted can be unmounted.
#include <fcntl.h>
#include <linux/mount.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#include <cerrno>
#include <cstring>
#include <map>

#include "attack.h"

namespace ppc::attack {

namespace {

class MountFuzzer {
 public:
  MountFuzzer(std::string base, std::string mnt, uint64_t seed)
      : base_(std::move(base)), mnt_(std::move(mnt)), rng_(seed) {}

  bool One() {
    const std::string source = Source();
    std::vector<std::string> options(rng_.Below(4));
    for (std::string& option : options) option = Option();
    if (rng_.OneIn(64)) options.push_back(std::string(rng_.Below(9000), 'o'));
    std::string joined;
    for (const std::string& option : options) joined += (joined.empty() ? "" : ",") + option;

    const int error = rng_.OneIn(2) ? ByContext(source, options) : ByMount(source, joined);
    ++answers_[error];
    if (error) return Known(error, source + " " + joined.substr(0, 200));
    return Use(joined);
  }
  void Report() const {
    std::printf("answers");
    for (const auto& [error, n] : answers_) {
      std::printf(" %s=%lu", error ? strerrorname_np(error) : "ok", n);
    }
    std::printf("\n");
  }

 private:
  std::string Source() {
    switch (rng_.Below(12)) {
      case 0:
        return "";
      case 1:
        return base_ + "/none";
      case 2:
        return base_ + "/a0";  // not a directory
      case 3:
        return "/proc";
      case 4:
        return std::string(rng_.Below(5000), '/') + base_;
      case 5:
        return base_ + "/" + std::string(rng_.Below(300), 'n');
      case 6:
        return base_ + "/../base/./";
      case 7:
        return std::string(1 + rng_.Below(8), static_cast<char>(1 + rng_.Below(255)));
      case 8:
        return mnt_;
      default:
        return base_;
    }
  }
  std::string Value() {
    switch (rng_.Below(8)) {
      case 0:
        return std::to_string(rng_.Next());
      case 1:
        return "0x" + std::to_string(rng_.Below(100000));
      case 2:
        return std::string(rng_.Below(600), '9');
      case 3:
        return "";
      case 4:
        return "-1";
      case 5:
        return std::string(1 + rng_.Below(6), static_cast<char>(1 + rng_.Below(255)));
      default:
        return std::to_string(1ULL << rng_.Below(40)) + std::string(rng_.Below(2), 'K');
    }
  }
  std::string Option() {
    static const char* const kNames[] = {"queue",   "window", "beacon",
                                         "odirect", "nosuch", "source"};
    static const char* const kDirect[] = {"auto", "pass", "buffered", "deny"};
    std::string name = kNames[rng_.Below(std::size(kNames))];
    if (name == "odirect" && !rng_.OneIn(4)) return name + "=" + kDirect[rng_.Below(4)];
    if (rng_.OneIn(16)) return name;
    // Rings of a million events are memory that is well spent elsewhere, but must be possible.
    return name + "=" + Value();
  }

  int ByMount(const std::string& source, const std::string& options) {
    return mount(source.c_str(), mnt_.c_str(), "ppc", rng_.OneIn(4) ? rng_.Next() & 0x40f : 0,
                 options.c_str())
               ? errno
               : 0;
  }
  int ByContext(const std::string& source, const std::vector<std::string>& options) {
    const Fd context(static_cast<int>(syscall(SYS_fsopen, "ppc", 1U)));
    if (!context) return errno;
    auto config = [&](unsigned command, const char* key, const void* value, int aux) {
      return syscall(SYS_fsconfig, context.get(), command, key, value, aux);
    };
    if (!rng_.OneIn(32) && config(1, "source", source.c_str(), 0)) return errno;
    if (rng_.OneIn(32) && config(1, "source", source.c_str(), 0)) return errno;  // twice
    for (const std::string& option : options) {
      const size_t equals = option.find('=');
      const std::string key = option.substr(0, equals);
      if (equals == std::string::npos ? config(0, key.c_str(), nullptr, 0)
                                      : config(1, key.c_str(), option.c_str() + equals + 1, 0)) {
        return errno;
      }
    }
    // Wrong kinds of values: binary, a descriptor.
    if (rng_.OneIn(16) && config(2, "queue", "\1\2\3", 3)) return errno;
    if (rng_.OneIn(16) && config(5, "window", nullptr, context.get())) return errno;
    if (rng_.OneIn(32)) return ECANCELED;  // given up before it was made
    if (config(6, nullptr, nullptr, 0)) return errno;
    const Fd tree(static_cast<int>(syscall(SYS_fsmount, context.get(), 1U, rng_.Below(8))));
    if (!tree) return errno;
    if (rng_.OneIn(8)) return ECANCELED;  // never attached to the tree of mounts
    return syscall(SYS_move_mount, tree.get(), "", AT_FDCWD, mnt_.c_str(), 4U) ? errno : 0;
  }

  static bool Known(int error, const std::string& what) {
    switch (error) {
      case EINVAL:
      case ENOENT:
      case ENOTDIR:
      case ENAMETOOLONG:
      case ECANCELED:
      case EBUSY:  // fs context: created already
      case E2BIG:  // fs context: an option longer than a page
      case EROFS:
      case EACCES:
      case ELOOP:
        return true;
    }
    std::printf("FAIL: mount said %s for %s\n", strerrorname_np(error), what.c_str());
    return false;
  }

  // A mount is readable, tells its options, takes new ones, and goes.
  bool Use(const std::string& options) {
    const int device = DeviceOf(mnt_);
    if (device < 0) {
      // something that is no ppc mount cannot have been mounted with type ppc
      std::printf("FAIL: mounted with %s, but there is no device\n", options.c_str());
      return false;
    }
    Fd file(open((mnt_ + "/a0").c_str(), O_RDONLY | O_CLOEXEC));
    if (file && CheckRead(file.get(), 0, 4096, 8192) != Verdict::kRight) {
      std::printf("FAIL: wrong bytes with %s\n", options.c_str());
      return false;
    }
    const Fd fd(open(("/dev/ppc" + std::to_string(device)).c_str(), O_RDWR | O_CLOEXEC));
    if (rng_.OneIn(2)) {
      const std::string other = Option();
      const int error = mount("", mnt_.c_str(), "ppc", MS_REMOUNT | (rng_.OneIn(4) ? 0 : MS_RDONLY),
                              other.c_str())
                            ? errno
                            : 0;
      if (error && !Known(error, "remount " + other)) return false;
    }
    // The device may stay open; a file may not, but for a lazy unmount.
    const bool lazy = rng_.OneIn(8);
    if (!lazy) file = Fd();
    if (umount2(mnt_.c_str(), lazy ? MNT_DETACH : 0) == 0) return true;
    std::printf("FAIL: umount: %s\n", strerror(errno));
    return false;
  }

  std::string base_, mnt_;
  Rng rng_;
  std::map<int, uint64_t> answers_;
};

}  // namespace

int MountFuzz(const Words& words) {
  const uint64_t seed = words.Option("seed", static_cast<uint64_t>(time(nullptr)));
  const uint64_t count = words.Option("count", 3000);
  std::printf("mountfuzz seed=%lu count=%lu\n", seed, count);
  MountFuzzer fuzzer(words.TextOption("base"), words.TextOption("mnt"), seed);
  for (uint64_t i = 0; i < count; ++i) {
    if (!fuzzer.One()) return 1;
  }
  fuzzer.Report();
  return NothingLeft("after all mounts") ? 0 : 1;
}

}  // namespace ppc::attack
