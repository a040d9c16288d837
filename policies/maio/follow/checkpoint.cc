// SPDX-License-Identifier: Apache-2.0
#include "policies/maio/follow/checkpoint.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "daemon/base/digests.h"

namespace ppc::maio {
namespace {

uint64_t SumOf(uint64_t number, uint64_t bytes, std::span<const uint8_t> note) {
  const uint32_t head = Crc32c(&number, sizeof(number), Crc32c(&bytes, sizeof(bytes)));
  return uint64_t{head} << 32 | Crc32c(note.data(), note.size(), head);
}

}  // namespace

size_t Checkpoint::BytesFor(size_t room) { return 2 * (sizeof(Head) + (room + 7) / 8 * 8); }

Checkpoint::Checkpoint(void* memory, size_t bytes)
    : memory_(static_cast<uint8_t*>(memory)), half_bytes_(bytes / 2 / 8 * 8) {
  if (half_bytes_ <= sizeof(Head)) memory_ = nullptr;
  if (memory_ == nullptr) return;
  for (const unsigned half : {0u, 1u}) {
    uint64_t number = 0;
    (void)ReadHalf(half, &number);
    number_ = std::max(number_, number);
  }
}

size_t Checkpoint::room() const { return is_kept() ? half_bytes_ - sizeof(Head) : 0; }

// A copy first: whoever wrote it may not have ended yet.
std::vector<uint8_t> Checkpoint::ReadHalf(unsigned half, uint64_t* number) const {
  Head head = {};
  std::memcpy(&head, Half(half), sizeof(head));
  if (head.number == 0 || head.number % 2 != half || head.bytes == 0 || head.bytes > room())
    return {};
  const uint8_t* const data = Half(half) + sizeof(head);
  std::vector<uint8_t> note(data, data + head.bytes);
  if (SumOf(head.number, head.bytes, note) != head.sum) return {};
  *number = head.number;
  return note;
}

std::vector<uint8_t> Checkpoint::Read() const {
  if (!is_kept()) return {};
  uint64_t numbers[2] = {};
  std::vector<uint8_t> notes[2] = {ReadHalf(0, &numbers[0]), ReadHalf(1, &numbers[1])};
  return std::move(notes[numbers[1] > numbers[0] ? 1 : 0]);
}

void Checkpoint::Clear() {
  const Head none = {};
  for (const uint64_t half : {0, 1}) {
    if (is_kept()) std::memcpy(Half(half), &none, sizeof(none));
  }
}

bool Checkpoint::Write(std::span<const uint8_t> note) {
  if (!is_kept() || note.empty() || note.size() > room()) return false;
  const uint64_t number = number_ + 1;
  uint8_t* const half = Half(number);
  Head head = {};
  std::memcpy(half, &head, sizeof(head));  // none while it is written
  std::atomic_signal_fence(std::memory_order_seq_cst);
  std::memcpy(half + sizeof(head), note.data(), note.size());
  std::atomic_signal_fence(std::memory_order_seq_cst);
  head = {number, note.size(), SumOf(number, note.size(), note)};
  std::memcpy(half, &head, sizeof(head));
  number_ = number;
  return true;
}

}  // namespace ppc::maio
