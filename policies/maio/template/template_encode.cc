// SPDX-License-Identifier: Apache-2.0
//
// Template -> bytes.  Pure function; see docs/template-format.md.
#include <zstd.h>

#include <algorithm>
#include <set>

#include "daemon/base/digests.h"
#include "policies/maio/template/template.h"
#include "policies/maio/template/template_format.h"

namespace ppc::maio {
namespace {

constexpr size_t kCompressFrom = 128;  // bytes
constexpr size_t kCompressHard = 256 << 10;

Section MetaSection(const Template& t) {
  ByteWriter w;
  w.Varint(t.service_id.size());
  w.Raw(t.service_id);
  w.Varint(t.meta.size());
  w.Raw(t.meta);
  return {kSectionMeta, std::move(w.bytes())};
}

// Paths and times are relative to the file before: shards differ in a few digits only.
Section FilesSection(const Template& t) {
  ByteWriter w;
  w.Varint(t.files.size());
  std::string previous;
  uint64_t previous_mtime = 0;
  for (const TemplateFile& file : t.files) {
    size_t shared = 0;
    while (shared < previous.size() && shared < file.path.size() &&
           previous[shared] == file.path[shared]) {
      shared++;
    }
    w.Varint(shared);
    w.Varint(file.path.size() - shared);
    w.Raw(file.path.substr(shared));
    w.Varint(file.size);
    w.Signed(static_cast<int64_t>(static_cast<uint64_t>(file.mtime_ns) - previous_mtime));
    w.Fixed(static_cast<uint8_t>(file.kind));
    w.Raw(file.fingerprint.data(), file.fingerprint.size());
    previous = file.path;
    previous_mtime = static_cast<uint64_t>(file.mtime_ns);
  }
  return {kSectionFiles, std::move(w.bytes())};
}

// How many extents from i on have equal length and equal distance in one file.
size_t StrideRun(const std::vector<Extent>& extents, size_t i) {
  if (i + 1 >= extents.size()) return 1;
  const Extent& first = extents[i];
  uint64_t stride = extents[i + 1].page - first.page;
  if (extents[i + 1].page <= first.page || stride < first.pages) return 1;
  size_t n = 1;
  while (i + n < extents.size() && extents[i + n].file == first.file &&
         extents[i + n].pages == first.pages && extents[i + n].page == first.page + n * stride) {
    n++;
  }
  return n;
}

// Deltas are against the end of the last extent of the same file, so that
// groups that walk several files side by side stay small.
void AddGroup(const Template& t, const TemplateGroup& group, ByteWriter* writer) {
  ByteWriter& w = *writer;
  w.Varint(group.id);
  w.Varint(group.first_ms);
  w.Varint(group.last_ms);
  w.Varint(group.repeat_bytes);
  w.Varint(group.overread_bytes);
  w.Varint(group.extents.size());
  std::vector<uint64_t> ends(t.files.size(), 0);
  int64_t file = -1;
  const std::vector<Extent> extents = group.extents.ToVector();
  for (size_t i = 0; i < extents.size();) {
    const Extent& e = extents[i];
    int64_t delta = static_cast<int64_t>(e.page - ends[e.file]);
    size_t n = e.file == file ? StrideRun(extents, i) : 1;
    if (n >= 4) {
      w.Fixed(static_cast<uint8_t>(kOpStride));
      w.Signed(delta);
      w.Varint(e.pages);
      w.Varint(extents[i + 1].page - e.page);
      w.Varint(n);
    } else {
      n = 1;
      if (e.file == file) {
        w.Fixed(static_cast<uint8_t>(kOpRun));
      } else {
        w.Fixed(static_cast<uint8_t>(kOpFile));
        w.Signed(static_cast<int64_t>(e.file) - file);
      }
      w.Signed(delta);
      w.Varint(e.pages);
    }
    const Extent& last = extents[i + n - 1];
    ends[e.file] = last.page + last.pages;
    file = e.file;
    i += n;
  }
  w.Fixed(static_cast<uint8_t>(kOpEnd));
}

// All groups of a node in one section: workers of a node read alike, which compression finds.
Section GroupsSection(const Template& t, uint32_t node) {
  ByteWriter w;
  w.Varint(node);
  for (const TemplateGroup& group : t.groups) {
    if (group.node == node) AddGroup(t, group, &w);
  }
  return {kSectionGroups, std::move(w.bytes())};
}

Section TimeSection(const Template& t) {
  ByteWriter w;
  for (const TemplateGroup& group : t.groups) {
    if (group.time_ms.empty()) continue;
    w.Varint(group.id);
    w.Varint(group.time_ms.size());
    for (uint32_t ms : group.time_ms) w.Varint(ms);
  }
  return {kSectionTime, std::move(w.bytes())};
}

Section PhasesSection(const Template& t) {
  ByteWriter w;
  w.Varint(t.phases.size());
  for (const PhaseMark& mark : t.phases) {
    w.Fixed(static_cast<uint8_t>(mark.phase));
    w.Fixed(static_cast<uint8_t>(mark.is_told ? 1 : 0));
    w.Varint(mark.ms);
    w.Varint(mark.positions.size());
    for (auto [group, bytes] : mark.positions) {
      w.Varint(group);
      w.Varint(bytes);
    }
  }
  return {kSectionPhases, std::move(w.bytes())};
}

void Compress(Section* section) {
  if (section->bytes.size() < kCompressFrom) return;
  std::vector<uint8_t> out(ZSTD_compressBound(section->bytes.size()));
  int level = section->bytes.size() <= kCompressHard ? 19 : 9;
  size_t n =
      ZSTD_compress(out.data(), out.size(), section->bytes.data(), section->bytes.size(), level);
  if (ZSTD_isError(n) || n >= section->bytes.size()) return;
  out.resize(n);
  section->bytes = std::move(out);
  section->flags = kSectionZstd;
}

Fingerprint BinaryId(const std::string& service_id) {
  Sha256Digest digest = Sha256Of(service_id.data(), service_id.size());
  Fingerprint id;
  std::copy_n(digest.begin(), id.size(), id.begin());
  return id;
}

}  // namespace

std::vector<uint8_t> Encode(const Template& t) { return EncodeSections(t, /*compress=*/true); }

std::vector<uint8_t> EncodeSections(const Template& t, bool compress) {
  std::vector<Section> sections = {MetaSection(t), FilesSection(t)};
  std::set<uint32_t> nodes;
  for (const TemplateGroup& group : t.groups) nodes.insert(group.node);
  for (uint32_t node : nodes) sections.push_back(GroupsSection(t, node));
  sections.push_back(TimeSection(t));
  if (!t.phases.empty()) sections.push_back(PhasesSection(t));
  return Assemble(t, std::move(sections), compress);
}

std::vector<uint8_t> Assemble(const Template& t, std::vector<Section> sections, bool compress) {
  for (Section& section : sections) {
    section.raw_bytes = section.bytes.size();
    if (compress) Compress(&section);
  }
  uint64_t offset = kPreambleBytes + kSectionEntryBytes * sections.size();
  uint64_t total = offset + kTrailerBytes;
  for (const Section& section : sections) total += section.bytes.size();

  ByteWriter w;
  w.Raw(kMagic, sizeof(kMagic));
  w.Fixed(kMajor);
  w.Fixed(t.phases.empty() ? uint16_t{0} : kMinor);
  w.Fixed(t.flags);
  Fingerprint id = BinaryId(t.service_id);
  w.Raw(id.data(), id.size());
  w.Fixed(t.created_ns);
  w.Fixed(static_cast<uint32_t>(sections.size()));
  w.Fixed(uint32_t{0});  // checksum of preamble and table, filled in below
  w.Fixed(total);
  w.Fixed(t.generation);
  for (const Section& section : sections) {
    w.Fixed(section.type);
    w.Fixed(section.flags);
    w.Fixed(Crc32c(section.bytes.data(), section.bytes.size()));
    w.Fixed(offset);
    w.Fixed(static_cast<uint64_t>(section.bytes.size()));
    w.Fixed(section.raw_bytes);
    offset += section.bytes.size();
  }
  uint32_t crc = Crc32c(w.bytes().data(), w.bytes().size());
  for (int i = 0; i < 4; i++) w.bytes()[kHeaderCrcAt + i] = static_cast<uint8_t>(crc >> (8 * i));
  for (const Section& section : sections) w.Raw(section.bytes.data(), section.bytes.size());
  Sha256Digest digest = Sha256Of(w.bytes().data(), w.bytes().size());
  w.Raw(digest.data(), digest.size());
  return std::move(w.bytes());
}

}  // namespace ppc::maio
