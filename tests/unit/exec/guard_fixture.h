// SPDX-License-Identifier: Apache-2.0
// A guard and one service's reader, loads and drops, by a made-up clock.
#ifndef TESTS_UNIT_EXEC_GUARD_FIXTURE_H_
#define TESTS_UNIT_EXEC_GUARD_FIXTURE_H_

#include <gtest/gtest.h>

#include <vector>

#include "daemon/exec/guard.h"
#include "tests/unit/units.h"

namespace ppc {

class GuardTest : public testing::Test {
 protected:
  static constexpr uint64_t kGiB = 1024 * kMiB;
  static constexpr uint64_t kSecond = Guard::kNsPerSecond;
  static constexpr Guard::Slot kSlot = 1;

  GuardTest() {
    guard_.Begin(kSlot, "svc", now_);
    guard_.SetHitsSeen(true);
    guard_.SetRoom(kSlot, 8 * kGiB, 7 * kGiB);
  }
  void Miss(uint64_t offset, uint64_t bytes, uint64_t file = 1) {
    guard_.NoteAccess(
        kSlot,
        {.file = file, .file_bytes = kModel, .offset = offset, .length = bytes, .is_miss = true},
        now_);
  }
  // Misses all of a range, as a reader without a policy does.
  void Read(uint64_t offset, uint64_t bytes, uint64_t file = 1) {
    for (uint64_t at = 0; at < bytes; at += kMiB) Miss(offset + at, kMiB, file);
  }
  void Progress(uint64_t offset, uint64_t bytes, uint64_t file = 1) {
    for (uint64_t at = 0; at < bytes; at += 4 * kMiB)
      guard_.NoteAccess(
          kSlot, {.file = file, .file_bytes = kModel, .offset = offset + at, .length = 4096}, now_);
  }
  // A reader is here, and finds it cached.
  void See(uint64_t offset, uint64_t file = 1) { Progress(offset, 4096, file); }
  // Bytes loaded and not read, as long as none were wasted or have vanished.
  uint64_t Unread() { return 8 * kGiB - guard_.PlanBytes(kSlot, 0); }
  uint64_t Load(uint64_t offset, uint64_t bytes, uint64_t file = 1) {
    const Guard::Verdict verdict = guard_.AllowLoad(kSlot, file, offset, bytes, 0, now_);
    if (!verdict.is_allowed) return 0;
    guard_.NoteLoaded(
        kSlot, {.file = file, .offset = offset, .size = verdict.bytes, .bytes = verdict.bytes},
        now_);
    return verdict.bytes;
  }
  // What of it went with the mapped pages.
  uint64_t Drop(uint64_t offset, uint64_t bytes, bool unmap = true) {
    const Guard::Verdict verdict = guard_.AllowDrop(kSlot, offset, bytes, unmap);
    if (!verdict.is_allowed || verdict.unmap != unmap) return 0;
    guard_.NoteDropped(kSlot,
                       {.file = 1,
                        .offset = offset,
                        .size = verdict.bytes,
                        .bytes = verdict.bytes,
                        .unmap = unmap},
                       now_);
    return verdict.bytes;
  }
  void Wait(uint64_t ns) {
    for (const uint64_t end = now_ + ns; now_ < end; now_ += kSecond / 5) guard_.Tick(now_);
  }
  // All that was loaded and not read, by samples of the page cache.
  void Lose() {
    now_ += kSecond;
    std::vector<Guard::Sample> found;
    for (guard_.TakeSamples(&found); !found.empty(); guard_.TakeSamples(&found))
      for (const Guard::Sample& sample : found) guard_.NoteSample(sample, 0, now_);
  }
  GuardView View() const { return guard_.View(kSlot); }

  static constexpr uint64_t kModel = 1024 * kMiB;
  Guard guard_;
  uint64_t now_ = 1000 * kSecond;
};

}  // namespace ppc

#endif  // TESTS_UNIT_EXEC_GUARD_FIXTURE_H_
