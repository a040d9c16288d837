// SPDX-License-Identifier: Apache-2.0
// Calls shaped by the interface: each answer must be one it allows, and numbers must add up.
#include <ppc/uapi.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "fuzzer.h"

namespace ppc::attack {

void Fuzzer::Attach() {
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
char* Fuzzer::Map(const Slot& slot, uint64_t bytes, int protection, uint64_t offset) {
  void* map =
      mmap(nullptr, bytes, protection, MAP_SHARED, slot.fd.get(), static_cast<off_t>(offset));
  return Count(map == MAP_FAILED ? -1 : 0) ? nullptr : static_cast<char*>(map);
}

void Fuzzer::Load() {
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

void Fuzzer::Evict() {
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

void Fuzzer::Resident() {
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

void Fuzzer::Lookup() {
  static const char* const kNames[] = {"..",   ".",         "",         "/",
                                       "a0/",  "a0/x",      "none",     "dir",
                                       "link", "dir/../a0", "dir//a20", "../etc/passwd"};
  ppc_file file{};
  std::string name = rng_.OneIn(3) ? kNames[rng_.Below(std::size(kNames))] : File();
  if (rng_.OneIn(16)) name.assign(rng_.Below(4500), 'x');
  if (rng_.OneIn(16)) name[rng_.Below(name.size() + 1) % std::max<size_t>(name.size(), 1)] = '\xff';
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

void Fuzzer::Name() {
  ppc_file file{};
  file.file_id = FileId();
  file.name = Pointer(argument_);
  file.name_bytes = static_cast<uint32_t>(rng_.OneIn(4) ? rng_.Below(16) : kArgument / 2);
  file.flags = static_cast<uint32_t>(Mostly0());
  Call(PPC_IOC_FILE, &file, {EINVAL, ESTALE, ENOENT, ENAMETOOLONG, EFAULT, EISDIR});
}

void Fuzzer::Small() {
  ppc_info info{};
  ppc_cancel cancel{};
  ppc_charge charge{};
  ppc_file_mode mode{};
  switch (rng_.Below(7)) {
    case 0:
      Call(PPC_IOC_INFO, &info, {});
      break;
    case 1:
      Call(PPC_IOC_DETACH, nullptr, {ENOTCONN});
      break;
    case 5:
      Call(PPC_IOC_FLUSH, nullptr, {ENOTCONN});
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

}  // namespace ppc::attack
