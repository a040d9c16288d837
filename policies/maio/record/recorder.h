// SPDX-License-Identifier: Apache-2.0
//
// Learns a template (paper, section 4.1, template generation): per group, the
// ranges of files in the order of first touch.  Bounded memory: touches are
// merged as they come.
#ifndef POLICIES_MAIO_RECORD_RECORDER_H_
#define POLICIES_MAIO_RECORD_RECORDER_H_

#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "policies/maio/template/template.h"

namespace ppc::maio {

// Ranges of a file are joined over gaps up to kMergeGapPages; small ranges over wider ones, since
// those are rows of a tensor that was split by columns.  A wide gap between large ranges belongs
// to another worker, and its pages to another node.
inline constexpr uint64_t kMergeGapPages = (64 << 10) / kPage;
inline constexpr uint64_t kRowGapPages = (256 << 10) / kPage;
inline constexpr uint64_t kRowPages = (32 << 10) / kPage;
// A page touched again after its group has read so much more is a second pass
// and is listed again; sooner it is a repeat of the same.
inline constexpr uint64_t kSecondPassBytes = 256ull << 20;
// Headers, and a look at a file or two: with more of it the model is being read.
inline constexpr uint64_t kWeightsBeginBytes = 16ull << 20;

class Recorder {
 public:
  explicit Recorder(uint64_t start_ns) : start_ns_(start_ns) {}

  // Index of a file; learns it when new.  -1: table full.
  int32_t AddFile(uint64_t number, const TemplateFile& file);
  int32_t FileOf(uint64_t number) const;
  std::vector<TemplateFile>& files() { return files_; }
  const std::vector<TemplateFile>& files() const { return files_; }

  // may_repeat: pages that the group read long ago are listed again, as another pass of the load.
  void Touch(uint32_t group, uint32_t file, uint64_t first_page, uint64_t end_page, uint64_t now_ns,
             bool may_repeat = true);

  // Some group has read the page.
  bool HasTouched(uint32_t file, uint64_t page) const;
  // The group has.
  bool HasTouched(uint32_t id, uint32_t file, uint64_t page) const;
  // What was recorded for one of two groups was the other's, and the other way round.
  void Swap(uint32_t a, uint32_t b);

  // A phase begins; of each the first time counts, and what the service says before what was seen.
  void Mark(Phase phase, bool is_told, uint64_t now_ns);
  const std::vector<PhaseMark>& phases() const { return phases_; }

  // Nobody will read of the file any more: what is known of it is given back.
  void Forget(uint32_t file);

  // Sorted by group number; groups without extents are left out.
  // Extents leave with it: of the largest model's they would stand twice.
  Template Finish(const std::string& service_id, uint32_t flags, uint64_t created_ns) &&;
  // False when the table of contents of some model file was not read: recording began in the
  // middle of a load.
  bool HasBeginnings() const;
  uint64_t bytes() const { return bytes_; }
  uint64_t weight_bytes() const { return weight_bytes_; }

 private:
  struct Covered {
    uint64_t end = 0;
    uint64_t pos = 0;  // of the group's sequence when last listed
  };
  struct Group {
    size_t size() const { return out.extents.size() + recent.size(); }

    TemplateGroup out;
    std::vector<Extent> recent;  // the last ones, not packed into out yet
    uint64_t bytes = 0;
    uint64_t mark_ns = 0;
    uint64_t gap_pages = kMergeGapPages;
    bool full = false;
    std::unordered_map<uint32_t, std::map<uint64_t, Covered>> covered;  // file -> first page
    std::unordered_map<uint32_t, size_t> last;                          // file -> its last extent
  };

  // ms.  What begins an automatic service comes before it.
  uint64_t SinceStart(uint64_t now_ns) const {
    return now_ns < start_ns_ ? 0 : (now_ns - start_ns_) / 1'000'000;
  }
  void List(Group* group, uint32_t file, uint64_t first, uint64_t end, uint64_t now_ns);
  bool Extend(Group* group, uint32_t file, uint64_t first, uint64_t end);
  void Cover(Group* group, uint32_t file, uint64_t first, uint64_t end);
  void Pack(Group* group, size_t keep);
  void Shrink(Group* group);

  uint64_t start_ns_;
  std::vector<TemplateFile> files_;
  std::unordered_map<uint64_t, uint32_t> by_number_;
  std::map<uint32_t, Group> groups_;
  std::vector<PhaseMark> phases_;
  uint64_t bytes_ = 0;
  uint64_t weight_bytes_ = 0;
};

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_RECORD_RECORDER_H_
