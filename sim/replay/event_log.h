// SPDX-License-Identifier: Apache-2.0
// Owns the file format of recorded events (ppc-runner --record), and writing it; sim/replay reads
// it.
//
// "PPCEVLOG", u32 version 1, u32 page bytes; then records: u32 type, u32 payload
// bytes, payload.  Type 1 = a file: u64 number, u64 size, its path.  Type 2 = events,
// 72 bytes each.  Little-endian; unknown types are skipped.
#ifndef PPC_SIM_REPLAY_EVENT_LOG_H_
#define PPC_SIM_REPLAY_EVENT_LOG_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "daemon/backend/backend.h"
#include "daemon/base/result.h"
#include "daemon/base/unique_fd.h"

namespace ppc {

struct LoggedFile {
  uint64_t file = 0;
  uint64_t size = 0;
  std::string path;
};

struct EventLog {
  std::vector<LoggedFile> files;
  std::vector<Event> events;  // by time
};

class EventLogWriter {
 public:
  static Result<EventLogWriter> Create(const std::string& path);
  void AddFile(const LoggedFile& file);
  void AddEvents(std::span<const Event> events);
  // Errors are kept and told by Finish.
  Status Finish();

 private:
  explicit EventLogWriter(UniqueFd fd) : fd_(std::move(fd)) {}
  void Record(uint32_t type, const std::string& payload);
  void Flush();

  UniqueFd fd_;
  std::string buffer_;
  std::string payload_;
  int error_ = 0;
};

Result<EventLog> ReadEventLog(const std::string& path);

}  // namespace ppc

#endif  // PPC_SIM_REPLAY_EVENT_LOG_H_
