// SPDX-License-Identifier: Apache-2.0
#include "sim/replay/event_log.h"

#include <fcntl.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "daemon/base/files.h"

namespace ppc {
namespace {

struct DiskEvent {
  uint64_t file, offset, length, time_ns, start_ns, cgroup_id;
  uint32_t open_id;
  int32_t tgid, tid;
  uint16_t cpu;
  uint8_t kind, flags;
  uint64_t reserved;
};
static_assert(sizeof(DiskEvent) == 72);
static_assert(std::endian::native == std::endian::little, "the log is written as it lies");

constexpr char kMagic[] = "PPCEVLOG";
constexpr uint32_t kVersion = 1;
constexpr uint32_t kFileRecord = 1;
constexpr uint32_t kEventsRecord = 2;

constexpr size_t kFlushBytes = 64 << 10;

template <typename T>
void Append(std::string* out, const T& value) {
  out->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

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
    DiskEvent disk;
    while (Take(&payload, &disk)) {
      log->events.push_back(Event{disk.file, disk.offset, disk.length, disk.time_ns, disk.start_ns,
                                  disk.cgroup_id, disk.open_id, disk.tgid, disk.tid,
                                  static_cast<EventKind>(disk.kind), disk.flags, disk.cpu});
    }
  }
}

}  // namespace

Result<EventLogWriter> EventLogWriter::Create(const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!fd.IsValid()) return PosixError("create " + path, errno);
  EventLogWriter writer(std::move(fd));
  writer.buffer_.append(kMagic, 8);
  Append(&writer.buffer_, kVersion);
  Append(&writer.buffer_, static_cast<uint32_t>(kPageBytes));
  return writer;
}

void EventLogWriter::Record(uint32_t type, const std::string& payload) {
  Append(&buffer_, type);
  Append(&buffer_, static_cast<uint32_t>(payload.size()));
  buffer_ += payload;
  if (buffer_.size() >= kFlushBytes) Flush();
}

void EventLogWriter::AddFile(const LoggedFile& file) {
  payload_.clear();
  Append(&payload_, file.file);
  Append(&payload_, file.size);
  payload_ += file.path;
  Record(kFileRecord, payload_);
}

void EventLogWriter::AddEvents(std::span<const Event> events) {
  if (events.empty()) return;
  payload_.clear();
  for (const Event& e : events) {
    Append(&payload_,
           DiskEvent{e.file, e.offset, e.length, e.time_ns, e.start_ns, e.cgroup_id, e.open_id,
                     e.tgid, e.tid, e.cpu, static_cast<uint8_t>(e.kind), e.flags, 0});
  }
  Record(kEventsRecord, payload_);
}

void EventLogWriter::Flush() {
  const Status written = WriteAll(fd_.Get(), buffer_.data(), buffer_.size());
  if (!written) error_ = written.error().code;
  buffer_.clear();
}

Status EventLogWriter::Finish() {
  Flush();
  if (error_ != 0) return PosixError("write the event log", error_);
  return Ok();
}

Result<EventLog> ReadEventLog(const std::string& path) {
  const Result<std::string> text = ReadFile(path, kMaxLogBytes);
  if (!text) return text.error();
  std::string_view in = *text;
  uint32_t version = 0;
  uint32_t page_bytes = 0;
  if (!in.starts_with(kMagic)) return Error{EINVAL, path + " is not an event log"};
  in.remove_prefix(8);
  if (!Take(&in, &version) || version != kVersion || !Take(&in, &page_bytes)) {
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
