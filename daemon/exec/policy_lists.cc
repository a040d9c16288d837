// SPDX-License-Identifier: Apache-2.0
#include "daemon/exec/policy_lists.h"

#include <memory>
#include <optional>

#include "daemon/policy/io_check.h"

namespace ppc {

void PolicyLists::TellDevice(uint64_t number, ReadRate* rate) {
  FileInfo file;
  if (parts_.files->InfoOf(number, parts_.backend->NowNs(), &file))
    rate->SetDevice(BlockDevice{file.dev_major, file.dev_minor});
}

void PolicyLists::SubmitLoads(const RawList& list) {
  stats_.refused_surplus += list.refused;
  if (list.ios.empty()) return;
  loads_.clear();
  for (size_t i = 0; i < list.ios.size(); ++i) {
    IoRefusal why = IoRefusal::kNone;
    const std::optional<IoRange> range = CheckIo(list.ios[i], parts_.files, &why);
    ++stats_.refused[static_cast<size_t>(why)];
    if (!range) continue;
    const std::shared_ptr<Payer>& payer = parts_.services->Get(range->service)->payer;
    if (payer->rate != nullptr) TellDevice(range->file, payer->rate.get());
    loads_.push_back(
        LoadItem{.file = range->file,
                 .offset = range->offset,
                 .size = range->size,
                 .cookie = range->cookie,
                 .group = range->group,
                 .node = parts_.topology->NodeOfXpu(range->xpu),
                 .is_small = (range->flags & PPC_IO_MANY) != 0 && range->size <= kSmallLoad,
                 .deadline_ns = list.deadlines.empty() ? 0 : list.deadlines[i],
                 .payer = payer});
  }
  stats_.prefetch_ranges += loads_.size();
  parts_.loader->Submit(loads_, (list.flags & PPC_IOS_REPLACE) != 0);
  loads_.clear();  // whoever pays may end before the next list
}

void PolicyLists::SubmitEvicts(const RawList& list) {
  stats_.refused_surplus += list.refused;
  if (list.ios.empty()) return;
  evicts_.clear();
  for (const ppc_io& io : list.ios) {
    IoRefusal why = IoRefusal::kNone;
    const std::optional<IoRange> range = CheckIo(io, parts_.files, &why);
    ++stats_.refused[static_cast<size_t>(why)];
    if (!range) continue;
    evicts_.push_back(EvictItem{.file = range->file,
                                .offset = range->offset,
                                .size = range->size,
                                .cookie = range->cookie,
                                .group = range->group,
                                .unmap = (range->flags & PPC_IO_UNMAP) != 0,
                                .even_locked = (range->flags & PPC_IO_EVEN_LOCKED) != 0,
                                .drain = (range->flags & PPC_IO_DRAIN) != 0,
                                .payer = parts_.services->Get(range->service)->payer});
  }
  stats_.evict_ranges += evicts_.size();
  parts_.evictor->Submit(evicts_);
}

void PolicyLists::AskForEvictions(miss_io* event) {
  if (parts_.host->Has(Hook::kEvict)) SubmitEvicts(parts_.host->Evict(event));
}

}  // namespace ppc
