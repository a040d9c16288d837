// SPDX-License-Identifier: Apache-2.0
// Owns reading the events that ppc-runner --record has written (daemon/backend/event_log.h).
#ifndef PPC_SIM_REPLAY_EVENT_LOG_READER_H_
#define PPC_SIM_REPLAY_EVENT_LOG_READER_H_

#include <string>
#include <vector>

#include "daemon/backend/event_log.h"

namespace ppc {

struct EventLog {
  std::vector<LoggedFile> files;
  std::vector<Event> events;  // by time
};

Result<EventLog> ReadEventLog(const std::string& path);

}  // namespace ppc

#endif  // PPC_SIM_REPLAY_EVENT_LOG_READER_H_
