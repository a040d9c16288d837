// SPDX-License-Identifier: Apache-2.0
#include "daemon/exec/policy_lists.h"

#include <cerrno>
#include <memory>
#include <optional>

#include "daemon/policy/io_check.h"

namespace ppc {

void PolicyLists::TellDevice(uint64_t number, ReadRate* rate) {
  FileInfo file;
  if (parts_.files->InfoOf(number, parts_.backend->NowNs(), &file))
    rate->SetDevice(BlockDevice{file.dev_major, file.dev_minor});
}

// Never a success that did not happen: a refused load was interrupted, a refused drop left it
// mapped.
void PolicyLists::Refuse(const IoRange& range, uint64_t offset, uint64_t bytes, bool is_load) {
  parts_.completions->Push({.is_load = is_load,
                            .group = range.group,
                            .service = range.service,
                            .file = range.file,
                            .offset = offset,
                            .size = bytes,
                            .cookie = range.cookie,
                            .mapped = is_load ? 0 : bytes,
                            .interrupted = is_load,
                            .is_refused = true,
                            .error = is_load ? EDQUOT : 0});
}

uint64_t* PolicyLists::AskedOf(const Service& service) {
  for (Asked& asked : asked_) {
    if (asked.service == service.number) return &asked.bytes;
  }
  return &asked_.emplace_back(Asked{service.number, parts_.loader->QueuedOf(service.number)}).bytes;
}

template <typename Pass>
bool PolicyLists::PassLoad(const IoRange& range, const Service& service, Pass pass) {
  const Guard::Slot slot = GuardSlot(service);
  bool is_whole = true;
  for (uint64_t at = range.offset; at < range.offset + range.size;) {
    const uint64_t left = range.offset + range.size - at;
    Guard::Verdict verdict{.bytes = left};
    if (parts_.guard != nullptr) {
      uint64_t* const asked = AskedOf(service);
      verdict = parts_.guard->AllowLoad(slot, range.file, at, left, *asked, parts_.backend->NowNs(),
                                        (range.flags & PPC_IO_WAITED) != 0);
      if (verdict.is_allowed) *asked += verdict.bytes;
    }
    if (verdict.is_allowed) {
      pass(at, verdict.bytes);
    } else {
      Refuse(range, at, verdict.bytes, /*is_load=*/true);
      is_whole = false;
    }
    at += verdict.bytes;
  }
  return is_whole;
}

template <typename Pass>
void PolicyLists::PassDrop(const IoRange& range, const Service& service, Pass pass) {
  const bool unmap = (range.flags & PPC_IO_UNMAP) != 0;
  for (uint64_t at = range.offset; at < range.offset + range.size;) {
    const uint64_t left = range.offset + range.size - at;
    Guard::Verdict verdict{.bytes = left, .unmap = unmap};
    if (parts_.guard != nullptr)
      verdict = parts_.guard->AllowDrop(GuardSlot(service), at, left, unmap);
    if (verdict.is_allowed) {
      pass(at, verdict.bytes, verdict.unmap);
    } else {
      Refuse(range, at, verdict.bytes, /*is_load=*/false);
    }
    at += verdict.bytes;
  }
}

bool PolicyLists::SubmitLoads(const RawList& list) {
  stats_.refused_surplus += list.refused;
  if (list.ios.empty()) return true;
  loads_.clear();
  asked_.clear();
  bool is_whole = true;
  for (size_t i = 0; i < list.ios.size(); ++i) {
    IoRefusal why = IoRefusal::kNone;
    const std::optional<IoRange> range = CheckIo(list.ios[i], parts_.files, &why);
    ++stats_.refused[static_cast<size_t>(why)];
    if (!range) continue;
    ++stats_.prefetch_ranges;
    const Service& service = *parts_.services->Get(range->service);
    const std::shared_ptr<Payer>& payer = service.payer;
    if (payer->rate != nullptr) TellDevice(range->file, payer->rate.get());
    is_whole &= PassLoad(*range, service, [&](uint64_t offset, uint64_t bytes) {
      loads_.push_back(
          LoadItem{.file = range->file,
                   .offset = offset,
                   .size = bytes,
                   .cookie = range->cookie,
                   .group = range->group,
                   .node = parts_.topology->NodeOfXpu(range->xpu),
                   .is_small = (range->flags & PPC_IO_MANY) != 0 && range->size <= kSmallLoad,
                   .is_populated = MayPopulate(service),
                   .is_burnt = (range->flags & PPC_IO_BURN) != 0,
                   .is_waited = (range->flags & PPC_IO_WAITED) != 0,
                   .deadline_ns = list.deadlines.empty() ? 0 : list.deadlines[i],
                   .payer = payer});
    });
  }
  parts_.loader->Submit(loads_, (list.flags & PPC_IOS_REPLACE) != 0);
  loads_.clear();  // the payer may end before the next list
  return is_whole;
}

void PolicyLists::SubmitEvicts(const RawList& list) {
  stats_.refused_surplus += list.refused;
  if (list.ios.empty()) return;
  for (const ppc_io& io : list.ios) {
    IoRefusal why = IoRefusal::kNone;
    const std::optional<IoRange> range = CheckIo(io, parts_.files, &why);
    ++stats_.refused[static_cast<size_t>(why)];
    if (!range) continue;
    ++stats_.evict_ranges;
    const Service& service = *parts_.services->Get(range->service);
    PassDrop(*range, service, [&](uint64_t offset, uint64_t bytes, bool unmap) {
      evicts_.push_back(EvictItem{.file = range->file,
                                  .offset = offset,
                                  .size = bytes,
                                  .cookie = range->cookie,
                                  .group = range->group,
                                  .unmap = unmap,
                                  .even_locked = (range->flags & PPC_IO_EVEN_LOCKED) != 0,
                                  .drain = (range->flags & PPC_IO_DRAIN) != 0,
                                  .payer = service.payer});
    });
  }
  parts_.evictor->Submit(evicts_);
  evicts_.clear();  // the payer may end before the next list
}

void PolicyLists::AskForEvictions(miss_io* event) {
  if (parts_.host->Has(Hook::kEvict)) SubmitEvicts(parts_.host->Evict(event));
}

}  // namespace ppc
