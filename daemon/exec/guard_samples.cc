// SPDX-License-Identifier: Apache-2.0
// Samples of the page cache: which cells are looked at, and what follows for loads that are gone.
#include "daemon/backend/backend.h"
#include "daemon/exec/guard.h"

namespace ppc {

void Guard::TakeSamples(std::vector<Sample>* out) {
  out->clear();
  const size_t most = has_vanished_ ? kManySamples : kSamples;
  has_vanished_ = false;
  for (size_t step = 0; step < kSampleSteps && out->size() < most && !files_.empty(); ++step) {
    if (sample_file_ >= files_.size()) sample_file_ = 0;
    const File& file = *files_[sample_file_];
    if (sample_cell_ >= file.cells.size()) {
      ++sample_file_;
      sample_cell_ = 0;
      continue;
    }
    const size_t at = sample_cell_++;
    if (file.cells[at].loaded == 0) continue;
    out->push_back({file.number, uint64_t{at} << shift_, CellPages(file, at) * kPageBytes,
                    file.cells[at].loaded});
  }
}

void Guard::NoteSample(const Sample& sample, uint64_t resident, uint64_t now_ns) {
  const auto known = by_number_.find(sample.file);
  const size_t index = sample.offset >> shift_;
  if (known == by_number_.end() || index >= known->second->cells.size()) return;
  Cell& cell = known->second->cells[index];
  const uint64_t there = resident / kPageBytes;
  // Read, dropped or loaded meanwhile.
  if (cell.loaded == 0 || cell.loaded != sample.loaded || there >= cell.loaded) return;
  const uint64_t gone = (cell.loaded - there) * kPageBytes;
  Ledger& owner = Of(cell.owner);
  cell.loaded = static_cast<uint16_t>(there);
  Take(&owner.unseen, gone);
  has_vanished_ = true;
  Vanish(&owner, cell, gone);
  Judge(&owner, now_ns);
}

}  // namespace ppc
