// SPDX-License-Identifier: Apache-2.0
#include "sim/replay/event_log_reader.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "daemon/base/files.h"

namespace ppc {
namespace {

constexpr size_t kMaxLogBytes = size_t{4} << 30;

template <typename T>
bool Take(std::string_view* in, T* value) {
  if (in->size() < sizeof(T)) return false;
  std::memcpy(value, in->data(), sizeof(T));
  in->remove_prefix(sizeof(T));
  return true;
}

void ParseRecord(uint32_t type, std::string_view payload, EventLog* log) {
  if (type == kFileRecord) {
    LoggedFile file;
    if (Take(&payload, &file.file) && Take(&payload, &file.size)) {
      file.path = std::string(payload);
      log->files.push_back(std::move(file));
    }
  } else if (type == kEventsRecord) {
    LoggedEvent disk;
    while (Take(&payload, &disk)) {
      log->events.push_back(Event{disk.file, disk.offset, disk.length, disk.time_ns, disk.start_ns,
                                  disk.cgroup_id, disk.open_id, disk.tgid, disk.tid,
                                  static_cast<EventKind>(disk.kind), disk.flags, disk.cpu});
    }
  }
}

}  // namespace

Result<EventLog> ReadEventLog(const std::string& path) {
  const Result<std::string> text = ReadFile(path, kMaxLogBytes);
  if (!text) return text.error();
  std::string_view in = *text;
  uint32_t version = 0;
  uint32_t page_bytes = 0;
  if (!in.starts_with(kEventLogMagic)) return Error{EINVAL, path + " is not an event log"};
  in.remove_prefix(8);
  if (!Take(&in, &version) || version != kEventLogVersion || !Take(&in, &page_bytes)) {
    return Error{EINVAL, path + " is an event log of another version"};
  }
  EventLog log;
  uint32_t type = 0;
  uint32_t bytes = 0;
  // A log cut off by a crash is good up to its last whole record.
  while (Take(&in, &type) && Take(&in, &bytes) && bytes <= in.size()) {
    ParseRecord(type, in.substr(0, bytes), &log);
    in.remove_prefix(bytes);
  }
  std::stable_sort(log.events.begin(), log.events.end(),
                   [](const Event& a, const Event& b) { return a.time_ns < b.time_ns; });
  return log;
}

}  // namespace ppc
