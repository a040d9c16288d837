// SPDX-License-Identifier: Apache-2.0
//
// The small files of a start-up: packages, libraries, tokenizers, configuration.  Thousands of them
// are read one after the other, by any process of the service, and each costs a reader as long as
// the disk takes to answer.  So they are kept apart from the model: one list in the order in which
// they were read first, loaded in that order, many at once, and kept until the service is ready.
// No positions, no workers, no releasing: a table of some bytes for each, where a layout has lists
// for each file and group.  Files that are read in small pieces (scattered.h) are served alike.
#ifndef POLICIES_MAIO_FOLLOW_SMALL_FILES_H_
#define POLICIES_MAIO_FOLLOW_SMALL_FILES_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "policies/maio/base/file_lookup.h"
#include "policies/maio/follow/evictor.h"
#include "policies/maio/template/template.h"
#include "ppc.hpp"

namespace ppc::maio {

struct SmallFilesStats {
  uint64_t files = 0;
  uint64_t bytes = 0;
  uint64_t gone = 0;  // bytes, of files that were to be looked up later
  uint64_t asked = 0;
  uint64_t loaded = 0;
  uint64_t redundant = 0;  // asked for and found resident
  uint64_t missed = 0;     // read by the service itself before they were there
};

class SmallFiles {
 public:
  // The load group of theirs; the workers' are numbered from 0.
  static constexpr uint32_t kGroup = kMaxGroups - 1;
  // In place of the number of a small file that is yet to be looked up, with its place among those.
  static constexpr uint64_t kUnresolved = 1ull << 63;

  // Takes small and scattered files and their extents out of a template; numbers: of its files in
  // this run, of which those that stay are left.  is_many: the host knows PPC_IO_MANY.
  SmallFiles(Template* t, std::vector<uint64_t>* numbers, uint32_t service, uint64_t cookie,
             bool is_many);

  // What is known of those that come next of what is looked up later; how many are gone.
  uint32_t Learn(std::span<const FileLookup> found);
  // Some are still to be looked up: what is not known may be one of them.
  bool IsLearning() const { return learnt_ < by_file_.size(); }

  bool Knows(uint64_t file) const;
  // Of a file that is not known: it may be one that is yet to be looked up.
  static bool MayBe(const miss_io& event);
  // The service has read something of one.
  void Touch(uint64_t file, uint64_t offset, uint64_t size, bool is_miss);
  // Adds what comes next, at most so many bytes (a little more is fine); the bytes.
  uint64_t Plan(uint64_t max_bytes, uint64_t now_ns, IoList* out);
  // The same beside a model, which is read already (is_begun) or not; learnt_ns: when some were
  // looked up last.
  uint64_t PlanBeside(uint64_t max_bytes, bool is_begun, uint64_t learnt_ns, uint64_t now_ns,
                      IoList* out);
  bool Owns(uint64_t cookie) const { return (cookie & ~kPartMask) == cookie_; }
  void Done(const ppc_result& result);
  // Of a service that is ready: drops what nobody needs (held), some of it only where nobody maps
  // it, some at a time; false once there is nothing to drop any more.
  bool Release(bool can_unmap, const Evictor::Held& held, IoList* out);

  // Release leaves what was there before it was asked for.
  void KeepPreexisting() { keeps_preexisting_ = true; }

  // Nothing is left to be asked for.
  bool finished() const { return finished_; }
  // What comes next was read before the model was, when it was recorded.
  bool IsEarly() const { return !finished_ && next_ < early_; }
  const SmallFilesStats& stats() const { return stats_; }

 private:
  enum class State : uint8_t { kPending, kAsked, kPresent };
  struct Part {
    uint64_t number = 0;
    uint64_t offset = 0;
    uint32_t bytes = 0;
    State state = State::kPending;
    uint8_t tries = 0;
    bool stays_mapped = false;  // a library's, a memory image's: dropped only where nobody maps it
    bool is_missed = false;     // some of it
    bool is_read = false;       // some of it, for us
  };
  struct Place {
    uint64_t number = 0;
    uint32_t part = 0;
    auto operator<=>(const Place&) const = default;
  };

  void TakeExtents(Template* t, const std::vector<uint64_t>& numbers,
                   const std::vector<bool>& is_scattered);
  void TakeFiles(Template* t, std::vector<uint64_t>* numbers,
                 const std::vector<bool>& is_scattered);
  void AddParts(uint64_t number, const TemplateFile& file, const Extent& extent, bool stays_mapped);
  void Follow(uint32_t part);
  void Skip(uint32_t part);
  bool FindNext();
  bool FindSkipped();

  static constexpr uint64_t kPartMask = 0xffffffff;
  // A library that is mapped is read here and there: a part is what is worth one request.
  static constexpr uint64_t kPartBytes = 512 << 10;
  static constexpr size_t kMaxParts = 1 << 17;  // more are the kernel's
  static constexpr size_t kMostUnderWay = 4096;
  static constexpr uint8_t kMaxTries = 3;
  // Misses one after the other, so close in the list, say where the reader is.
  static constexpr uint32_t kNearParts = 256;
  static constexpr uint32_t kMissesToFollow = 3;

  const uint32_t service_;
  const uint64_t cookie_;
  const bool is_many_;
  std::vector<Part> parts_;     // in the order of the recording
  std::vector<Place> by_file_;  // sorted
  size_t learnt_ = 0;           // of by_file_: with a number
  uint64_t looked_up_ = 0;      // of the files that were to be looked up later
  uint32_t early_ = 0;          // parts below were read before the model
  uint32_t next_ = 0;
  uint32_t skipped_ = 0;      // parts below are not pending
  bool has_skipped_ = false;  // some before next_ are pending
  bool was_skipped_ = false;  // what was asked for last
  uint32_t at_ = 0;           // what FindNext has found
  bool finished_ = false;
  uint32_t last_miss_ = 0;
  uint32_t misses_ = 0;  // in a row
  size_t under_way_ = 0;
  uint32_t released_ = 0;  // parts below have been dropped
  bool keeps_preexisting_ = false;
  bool is_told_ = false;  // something was reported since Plan
  uint64_t told_ns_ = 0;  // when Plan found that, or nothing under way
  SmallFilesStats stats_;
};

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_FOLLOW_SMALL_FILES_H_
