// SPDX-License-Identifier: Apache-2.0
#include "daemon/backend/event_log.h"

#include <fcntl.h>

#include <cerrno>

#include "daemon/base/files.h"

namespace ppc {
namespace {

constexpr size_t kFlushBytes = 64 << 10;

template <typename T>
void Append(std::string* out, const T& value) {
  out->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

}  // namespace

Result<EventLogWriter> EventLogWriter::Create(const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!fd.IsValid()) return PosixError("create " + path, errno);
  EventLogWriter writer(std::move(fd));
  writer.buffer_.append(kEventLogMagic, 8);
  Append(&writer.buffer_, kEventLogVersion);
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
           LoggedEvent{e.file, e.offset, e.length, e.time_ns, e.start_ns, e.cgroup_id, e.open_id,
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

}  // namespace ppc
