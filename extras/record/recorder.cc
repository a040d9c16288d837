// SPDX-License-Identifier: Apache-2.0
// ppc-runner --record: the events taken, each file before its first event.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "daemon/exec/event_recorder.h"
#include "sim/replay/event_log.h"

namespace ppc {
namespace {

class LogRecorder : public EventRecorder {
 public:
  explicit LogRecorder(EventLogWriter log) : log_(std::move(log)) {}

  void Add(std::span<const Event> events, FileTable* files, uint64_t now_ns) override {
    for (const Event& event : events) {
      FileCopy file;
      if (!files->Copy(event.file, now_ns, &file)) continue;
      if (std::ranges::find(known_, event.file) != known_.end()) continue;
      known_.push_back(event.file);
      log_.AddFile(LoggedFile{event.file, file.bytes, file.path});
    }
    log_.AddEvents(events);
  }
  Status Finish() override { return log_.Finish(); }

 private:
  EventLogWriter log_;
  std::vector<uint64_t> known_;
};

}  // namespace

Result<std::unique_ptr<EventRecorder>> OpenRecorder(const std::string& path) {
  Result<EventLogWriter> log = EventLogWriter::Create(path);
  if (!log) return log.error();
  return std::unique_ptr<EventRecorder>(std::make_unique<LogRecorder>(*std::move(log)));
}

}  // namespace ppc
