// SPDX-License-Identifier: Apache-2.0
// fuzz mnt= [calls=1M] [threads=4] [seed=]: calls of every kind on the device of a mount, shaped by
// the interface and wild, while files are read and mapped and the consumer page is written over.
// Each answer must be one the interface allows, numbers must add up, files must hold the right
// bytes.
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <thread>

#include "coverage.h"
#include "fuzzer.h"

namespace ppc::attack {

Fuzzer::Fuzzer(Target* target, uint64_t seed) : target_(target), rng_(seed), slots_(kSlots) {
  void* memory =
      mmap(nullptr, kArgument + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  argument_ = static_cast<char*>(memory);
  mprotect(argument_ + kArgument, 4096, PROT_NONE);
  readonly_ =
      static_cast<char*>(mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  for (unsigned i = 0; i < kSlots; ++i) Reopen(i);
}
Fuzzer::~Fuzzer() {
  for (Slot& slot : slots_) slot.Unmap();
  munmap(argument_, kArgument + 4096);
  munmap(readonly_, 4096);
}

void Fuzzer::Run() {
  Coverage coverage;
  for (uint64_t n = 1; !target_->failed && target_->left.fetch_sub(1) > 0; ++n) {
    One();
    if (n % 256 == 0) coverage.Collect();
    // A consumer must run sometimes, or every ring is full for ever.
    if (rng_.OneIn(50)) Scribble();
  }
}

void Fuzzer::One() {
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

namespace {

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
