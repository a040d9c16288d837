// SPDX-License-Identifier: Apache-2.0
#include "daemon/cache/load_chunk.h"

#include <algorithm>
#include <cerrno>

namespace ppc {

const char* InterruptionName(Interruption reason) {
  static constexpr const char* kNames[kInterruptions] = {
      "none", "generation", "memory", "bandwidth", "queue", "shutdown", "later"};
  return kNames[static_cast<size_t>(reason)];
}

bool IsPutBack(Interruption reason) {
  return reason == Interruption::kMemory || reason == Interruption::kBandwidth ||
         reason == Interruption::kLater;
}

IoResult ResultOf(const LoadItem& item) {
  return IoResult{.group = item.group,
                  .service = ServiceOf(item.payer),
                  .payer = SerialOf(item.payer),
                  .file = item.file,
                  .offset = item.offset,
                  .cookie = item.cookie};
}

LoadChunk::LoadChunk(const LoadItem& queued, uint64_t bytes)
    : item_(queued),
      taken_(bytes),
      granted_(queued.payer && queued.payer->budget ? bytes : 0),
      rated_(queued.payer && queued.payer->rate ? bytes : 0),
      result_(ResultOf(queued)) {
  item_.size = bytes;
}

uint64_t LoadChunk::NextStep() const {
  return std::min(item_.size, kStepBytes - item_.offset % kStepBytes);
}

Interruption LoadChunk::EndStep(const LoadResult& loaded, uint64_t step) {
  result_.ok += loaded.loaded;
  result_.resident += loaded.resident;
  result_.failed += loaded.failed;
  switch (loaded.stop) {
    case LoadStop::kCancelled:
      // A backend with few places for groups may mean another one: the same step again, unless
      // the group's generation says that it was this one.
      return Interruption::kNone;
    case LoadStop::kUnmount:
      return Interruption::kShutdown;
    case LoadStop::kNoMemory:
      Advance(std::min(loaded.done, step));
      return IsOver() ? Interruption::kNone : Interruption::kMemory;
    case LoadStop::kLater:
      return Interruption::kLater;
    case LoadStop::kUnsupported:
      result_.error = EOPNOTSUPP;
      item_.size = 0;
      return Interruption::kNone;
    case LoadStop::kSignal:
      return Interruption::kNone;  // the same step again
    case LoadStop::kEof:
      result_.size += loaded.done;
      item_.size = 0;
      return Interruption::kNone;
    case LoadStop::kDone:
      break;
  }
  // A device that says done without having done anything must not keep us here.
  Advance(loaded.done == 0 ? step : std::min(loaded.done, step));
  return Interruption::kNone;
}

void LoadChunk::Advance(uint64_t done) {
  result_.size += done;
  item_.offset += done;
  item_.size -= done;
  const uint64_t back = std::min(done, granted_);
  if (back > 0) item_.payer->budget->Release(back);
  granted_ -= back;
}

Interruption LoadChunk::Fail(const Error& error) {
  if (error.code == ENODEV) return Interruption::kShutdown;
  result_.error = error.code;
  result_.failed += item_.size;
  result_.size += item_.size;
  item_.size = 0;
  return Interruption::kNone;
}

void LoadChunk::GiveBack() {
  if (granted_ > 0) item_.payer->budget->Release(granted_);
  granted_ = 0;
  // What was resident already did not come from the device.
  if (rated_ > result_.ok) item_.payer->rate->GiveBack(rated_ - result_.ok);
  rated_ = 0;
}

uint64_t LoadChunk::NotLoaded() const { return taken_ - std::min(taken_, result_.ok); }

std::optional<IoResult> LoadChunk::Report(Interruption reason) const {
  const bool is_put_back = IsPutBack(reason);
  // Reports only the executed part of a chunk that goes on later.
  if (is_put_back && result_.size == 0) return std::nullopt;
  IoResult result = result_;
  if (!is_put_back) result.size += item_.size;
  result.interrupted = reason != Interruption::kNone && !is_put_back;
  return result;
}

}  // namespace ppc
