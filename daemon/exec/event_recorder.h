// SPDX-License-Identifier: Apache-2.0
// Owns the interface to what writes down the events taken (ppc-runner --record): extras/record.
// Threads: the executor's.
#ifndef PPC_DAEMON_EXEC_EVENT_RECORDER_H_
#define PPC_DAEMON_EXEC_EVENT_RECORDER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "daemon/backend/backend.h"
#include "daemon/base/result.h"
#include "daemon/exec/file_table.h"

namespace ppc {

class EventRecorder {
 public:
  virtual ~EventRecorder() = default;
  // `files` knows their files, or asks for them.
  virtual void Add(std::span<const Event> events, FileTable* files, uint64_t now_ns) = 0;
  // Errors are kept and told by this.
  virtual Status Finish() = 0;
};

Result<std::unique_ptr<EventRecorder>> OpenRecorder(const std::string& path);

}  // namespace ppc

#endif  // PPC_DAEMON_EXEC_EVENT_RECORDER_H_
