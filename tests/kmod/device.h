// SPDX-License-Identifier: Apache-2.0
// One open /dev/ppcN: ioctls, rings, poll.  Single-threaded.
#pragma once

#include <ppc/uapi.h>

#include <string>
#include <vector>

#include "script.h"

namespace ppc::test {

class Device {
 public:
  explicit Device(int fd) : fd_(fd) {}
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // Runs a device command.  *known says whether the verb is one.
  Outcome Run(const Words& words, bool* known);
  uint64_t file_id() const { return file_id_; }

 private:
  Outcome Attach(const Words& words);
  Outcome Map(const ppc_attach& attach);
  void Unmap();
  Outcome Info();
  Outcome Lookup(const Words& words);
  Outcome Name(const Words& words);
  Outcome Load(const Words& words);
  Outcome Cancel(const Words& words);
  Outcome Evict(const Words& words);
  Outcome Resident(const Words& words);
  Outcome Charge(const Words& words);
  Outcome FileMode(const Words& words);
  Outcome Events(const Words& words);
  Outcome Poll(const Words& words);
  Outcome Consume(const Words& words);
  Outcome Scribble(const Words& words);
  Outcome RawIoctl(const Words& words);
  Outcome WriteRings();
  std::vector<ppc_event> Drain();

  int fd_;
  uint64_t file_id_ = 0;
  uint32_t charge_ = 0;
  char* rings_ = nullptr;
  char* consumer_ = nullptr;
  ppc_attach layout_{};
};

}  // namespace ppc::test
