// SPDX-License-Identifier: Apache-2.0
//
// The state of a service whose start is recorded.
#ifndef POLICIES_MAIO_RECORD_RECORDING_H_
#define POLICIES_MAIO_RECORD_RECORDING_H_

#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "policies/maio/base/run.h"
#include "policies/maio/record/recorder.h"
#include "policies/maio/record/reorder_buffer.h"
#include "policies/maio/record/scattered_read_detector.h"
#include "policies/maio/record/template_writer.h"

namespace ppc::maio {

// By number: a file whose name says nothing may be weights or not whatever its size, and the
// model's headers tell.
using KnownKinds = std::unordered_map<uint64_t, FileKind>;

class Recording {
 public:
  Recording(ServiceRun* run, const FoundTemplate& found)
      : run_(run), found_(found), recorder_(run->start_ns) {}

  void Event(const miss_io& event);
  bool Knows(uint64_t file) const { return recorder_.FileOf(file) >= 0; }
  // A miss of what has not been recorded: of another file, or of other pages.
  bool IsNews(const miss_io& event) const;
  // What waits for older touches is recorded without them.
  void Settle();
  void Swap(uint32_t a, uint32_t b) {
    Settle();
    recorder_.Swap(a, b);
  }
  void Mark(Phase phase, uint64_t now_ns) {
    Settle();
    recorder_.Mark(phase, /*is_told=*/true, now_ns);
  }
  // What else is done of the start.
  struct StartContext {
    bool has_missed = false;   // some of the start was not told of
    bool is_followed = false;  // something is loaded ahead of its readers
    bool is_warm = false;      // of which some was there before, and may not be seen
    KnownKinds kinds;          // of its files
  };
  void SetStartContext(StartContext context) { start_context_ = std::move(context); }

  // A model was read, or many small files were: the packages of a program, or weights in small
  // files whose names say nothing.
  bool HasSubstance() const;
  // Such has been recorded that is not stored or on its way.
  bool HasNews() const;
  // The service rests: one that cannot be stored is not tried again before there is more of it.
  bool IsDue(uint64_t now_ns);
  // flags: kComplete or kPartial.  own_bytes: see own_memory.h, as far as who follows knows.
  TemplateWriter Finish(uint32_t flags, uint64_t own_bytes);
  void TakeFinished(const TemplateWriter& writer);

  uint64_t bytes() const { return recorder_.bytes(); }
  uint64_t weight_bytes() const { return recorder_.weight_bytes(); }
  // When a worker last read something for the first time: not while readers compute from what they
  // have mapped, however often they pass over it, nor once they go here and there for long.  Told
  // of it after kLateNs, as what was read before it may be.
  uint64_t news_ns(uint64_t now_ns);
  bool IsEndless() const { return is_endless_; }
  size_t files() const { return recorder_.files().size(); }

 private:
  int32_t LearnFile(const miss_io& event);
  void NoteCached(const miss_io& event, const TemplateFile& file);
  uint64_t UnseenPages(const miss_io& event, const TemplateFile& file) const;
  bool MissesCached() const;
  void Record(const FileTouch& touched);
  void NoteOwn(uint64_t bytes);
  void NoteNews(const FileTouch& touched);

  ServiceRun* const run_;
  FoundTemplate found_;
  Recorder recorder_;
  ReorderBuffer reorder_buffer_;
  uint64_t own_bytes_ = 0;
  uint64_t begun_bytes_ = 0;                                // of the model, until that is known
  std::vector<std::pair<uint64_t, uint64_t>> model_files_;  // numbers and sizes
  uint64_t stored_bytes_ = 0;
  uint64_t tried_bytes_ = 0;    // when it was given away last
  uint64_t pending_bytes_ = 0;  // of what is on its way
  uint64_t cached_bytes_ = 0;   // of the recorded files, cached before they were read
  uint64_t model_bytes_ = 0;    // of those that are the model, all of them
  uint64_t first_news_ns_ = 0;  // of the model
  uint64_t news_ns_ = 0;
  ScatteredReadDetector scattered_reads_;
  bool is_endless_ = false;
  bool has_holes_ = false;  // events were lost in between
  bool is_traced_ = false;  // an access has come, which TRACE tells
  StartContext start_context_;
  uint64_t unnamed_bytes_ = 0;  // of small files that are so by their size alone
  uint64_t populated_bytes_ = 0;
  bool is_mapped_ = false;  // the model
};

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_RECORD_RECORDING_H_
