// SPDX-License-Identifier: Apache-2.0
// What the attacks share: random numbers, descriptors, files of known content, mounts.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "../kmod/script.h"

namespace ppc::attack {

using test::Words;

// splitmix64: the same numbers for the same seed everywhere.
class Rng {
 public:
  explicit Rng(uint64_t seed) : state_(seed) {}
  uint64_t Next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  uint64_t Below(uint64_t n) { return Next() % n; }
  bool OneIn(uint64_t n) { return Below(n) == 0; }
  uint64_t Of(std::initializer_list<uint64_t> values) {
    return values.begin()[Below(values.size())];
  }

 private:
  uint64_t state_;
};

class Fd {
 public:
  explicit Fd(int fd = -1) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Fd() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_;
};

// --- content.cc: every byte of a file follows from the file's seed and its offset.

void Fill(uint64_t seed, uint64_t offset, std::span<std::byte> data);
// Whether data is what Fill() would write; offset is a multiple of 8.
bool Right(uint64_t seed, uint64_t offset, std::span<const std::byte> data);
int MakeFile(const std::string& path, uint64_t bytes, uint64_t seed);

// How one check of a piece of a file ended.
enum class Verdict { kRight, kWrong, kShort, kError };
// By read(); errno is left for kError.
Verdict CheckRead(int fd, uint64_t seed, uint64_t offset, size_t bytes);
// Through a mapping; a SIGBUS is kError.  CatchSigbus() was called in this process.
Verdict CheckMapped(const std::byte* map, uint64_t seed, uint64_t offset, size_t bytes);
void CatchSigbus();

// Makes seed= of a file by its name "aSEED".
uint64_t SeedOfName(const std::string& name);

// --- machine.cc

// Mounts ppc; 0 or the errno.
int Mount(const std::string& base, const std::string& mnt, const std::string& options = "");
// Number of the mount's device, by its st_dev; -1 when there is none.
int DeviceOf(const std::string& mnt);
std::string ReadText(const std::string& path);
void WriteText(const std::string& path, const std::string& text);
// A counter in /sys/fs/ppc/N/.
uint64_t Counter(int device, const std::string& name);
// Objects of a slab cache in use, after its free ones were given back; -1: no such cache.
long SlabObjects(const std::string& cache);
// Fails the run unless no inode or open file of the module exists any more.
bool NothingLeft(const char* when);

// --- one command each; the status of the program

int Fuzz(const Words& words);
int MountFuzz(const Words& words);
int Storm(const Words& words);
int Cycles(const Words& words);
int Kills(const Words& words);
int Races(const Words& words);
int Pressure(const Words& words);
int FailNth(const Words& words);
int Mapper(const Words& words);

}  // namespace ppc::attack
