// SPDX-License-Identifier: Apache-2.0
//
// Bytes -> template.  The bytes are hostile until proven otherwise: all sizes
// are checked against what is there, and the result against Check().
#include <zstd.h>

#include <algorithm>
#include <cstring>

#include "daemon/base/digests.h"
#include "policies/maio/template/template.h"
#include "policies/maio/template/template_format.h"

namespace ppc::maio {
namespace {

constexpr uint64_t kMaxPages = kMaxFileBytes / kPage;

bool AddExtents(ExtentList* extents, const Extent& e, uint64_t stride, uint64_t count,
                size_t most) {
  if (count > most - extents->size()) return false;
  if (e.page > kMaxPages || e.pages > kMaxPages || stride > kMaxPages) return false;
  if (count > 1 && stride > (kMaxPages - e.page) / (count - 1)) return false;
  extents->AppendSeries(e, stride, count);
  return true;
}

bool ReadOps(ByteReader* r, size_t files, size_t most, ExtentList* extents) {
  std::vector<uint64_t> ends(files, 0);
  int64_t file = -1;
  for (;;) {
    uint8_t op = r->Fixed<uint8_t>();
    if (!r->ok() || op > kOpStride) return false;
    if (op == kOpEnd) {
      extents->shrink_to_fit();
      return true;
    }
    if (op == kOpFile) {
      int64_t delta = r->Signed();
      if (delta < -int64_t{kMaxFiles} || delta > int64_t{kMaxFiles}) return false;
      file += delta;
    }
    if (file < 0 || static_cast<uint64_t>(file) >= files) return false;
    Extent e;
    e.file = static_cast<uint32_t>(file);
    e.page = ends[e.file] + static_cast<uint64_t>(r->Signed());
    e.pages = r->Varint();
    uint64_t stride = op == kOpStride ? r->Varint() : 0;
    uint64_t count = op == kOpStride ? r->Varint() : 1;
    if (!r->ok() || count == 0 || !AddExtents(extents, e, stride, count, most)) return false;
    ends[e.file] = extents->back().page + e.pages;
  }
}

bool ReadMeta(ByteReader r, Template* t) {
  t->service_id = r.String(r.Varint());
  const uint64_t bytes = r.Varint();
  if (bytes > kMaxMetaBytes) return false;
  t->meta = r.String(bytes);
  return r.ok();
}

bool ReadFiles(ByteReader r, Template* t) {
  uint64_t count = r.Varint();
  if (!r.ok() || count > kMaxFiles - t->files.size() || count > r.left()) return false;
  std::string previous;
  uint64_t previous_mtime = 0;
  size_t path_bytes = 0;
  for (const TemplateFile& file : t->files) path_bytes += file.path.size();
  for (uint64_t i = 0; i < count; i++) {
    TemplateFile file;
    uint64_t shared = r.Varint();
    uint64_t length = r.Varint();
    if (!r.ok() || shared > previous.size() || length > 4095) return false;
    file.path = previous.substr(0, shared) + r.String(length);
    // Shared beginnings cost two bytes and are copied: what they come to is bounded by itself.
    path_bytes += file.path.size();
    if (file.path.size() > 4095 || path_bytes > kMaxPathBytes) return false;
    file.size = r.Varint();
    previous_mtime += static_cast<uint64_t>(r.Signed());
    file.mtime_ns = static_cast<int64_t>(previous_mtime);
    file.kind = KnownKind(r.Fixed<uint8_t>());
    r.Raw(file.fingerprint.data(), file.fingerprint.size());
    if (!r.ok()) return false;
    previous = file.path;
    t->files.push_back(std::move(file));
  }
  return true;
}

bool ReadGroup(ByteReader* r, uint32_t node, Template* t, uint64_t* total, std::string* error) {
  TemplateGroup group;
  uint64_t id = r->Varint();
  group.first_ms = r->Varint();
  group.last_ms = r->Varint();
  group.repeat_bytes = r->Varint();
  group.overread_bytes = r->Varint();
  uint64_t count = r->Varint();
  *total += count;
  if (!r->ok() || id > kCommonGroup) return false;
  if (count > kMaxExtents || *total > kMaxTotalExtents) {
    *error = "too many extents: more than " + std::to_string(kMaxExtents) + " in a group or " +
             std::to_string(kMaxTotalExtents) + " in all";
    return false;
  }
  group.id = static_cast<uint32_t>(id);
  group.node = node;
  if (!ReadOps(r, t->files.size(), count, &group.extents) || group.extents.size() != count)
    return false;
  t->groups.push_back(std::move(group));
  return t->groups.size() <= kMaxTemplateGroups;
}

bool ReadGroups(ByteReader r, Template* t, std::string* error) {
  uint64_t node = r.Varint();
  uint64_t total = 0;
  for (const TemplateGroup& group : t->groups) total += group.extents.size();
  if (!r.ok() || node > kCommonGroup) return false;
  while (r.left() > 0) {
    if (!ReadGroup(&r, static_cast<uint32_t>(node), t, &total, error)) return false;
  }
  return true;
}

bool ReadTime(ByteReader r, Template* t) {
  size_t marks = 0;
  for (const TemplateGroup& group : t->groups) marks += group.time_ms.size();
  while (r.left() > 0) {
    uint64_t id = r.Varint();
    uint64_t count = r.Varint();
    auto group = std::find_if(t->groups.begin(), t->groups.end(),
                              [&](const TemplateGroup& g) { return g.id == id; });
    if (!r.ok() || count > r.left() || group == t->groups.end()) return false;
    if (count > kMaxTimeMarks - marks) return false;
    marks += count;
    group->time_ms.reserve(group->time_ms.size() + count);
    for (uint64_t i = 0; i < count; i++) {
      group->time_ms.push_back(static_cast<uint32_t>(std::min<uint64_t>(r.Varint(), ~0u)));
    }
    if (!r.ok()) return false;
  }
  return true;
}

// What a later version may add to the phases is not known here, and left out.
bool ReadPhases(ByteReader r, Template* t) {
  const uint64_t count = r.Varint();
  if (!r.ok() || count > r.left()) return false;
  for (uint64_t i = 0; i < count; i++) {
    const uint8_t phase = r.Fixed<uint8_t>();
    PhaseMark mark;
    mark.is_told = (r.Fixed<uint8_t>() & 1) != 0;
    mark.ms = r.Varint();
    const uint64_t positions = r.Varint();
    if (!r.ok() || positions > kMaxTemplateGroups) return false;
    for (uint64_t p = 0; p < positions; p++) {
      const uint64_t group = r.Varint();
      const uint64_t bytes = r.Varint();
      if (group > kCommonGroup) return false;
      mark.positions.emplace_back(static_cast<uint32_t>(group), bytes);
    }
    if (!r.ok()) return false;
    if (phase >= kPhases) continue;
    mark.phase = static_cast<Phase>(phase);
    if (t->phases.size() >= kPhases) return false;
    t->phases.push_back(std::move(mark));
  }
  return true;
}

struct Entry {
  uint16_t type = 0;
  std::span<const uint8_t> bytes;
  bool is_packed = false;
  uint64_t raw = 0;
};

// Into *unpacked.
bool Unpack(const Entry& entry, std::vector<uint8_t>* unpacked) {
  if (ZSTD_getFrameContentSize(entry.bytes.data(), entry.bytes.size()) != entry.raw) return false;
  unpacked->resize(entry.raw);
  size_t n = ZSTD_decompress(unpacked->data(), entry.raw, entry.bytes.data(), entry.bytes.size());
  return !ZSTD_isError(n) && n == entry.raw;
}

// Preamble, section table and checksums; *error on failure.
bool ReadTable(std::span<const uint8_t> bytes, Template* t, std::vector<Entry>* entries,
               std::string* error) {
  auto fail = [&](const char* what) {
    *error = what;
    return false;
  };
  if (bytes.size() < kPreambleBytes + kTrailerBytes) return fail("too short");
  if (bytes.size() > kMaxTemplateBytes) return fail("too large");
  if (std::memcmp(bytes.data(), kMagic, sizeof(kMagic)) != 0) return fail("not a template");
  ByteReader r(bytes.subspan(sizeof(kMagic)));
  if (r.Fixed<uint16_t>() != kMajor) return fail("written by another major version");
  r.Fixed<uint16_t>();
  t->flags = r.Fixed<uint32_t>();
  r.String(16);
  t->created_ns = r.Fixed<uint64_t>();
  uint32_t sections = r.Fixed<uint32_t>();
  uint32_t crc = r.Fixed<uint32_t>();
  uint64_t file_bytes = r.Fixed<uint64_t>();
  t->generation = r.Fixed<uint64_t>();
  uint64_t budget = kMaxRawBytes;
  uint64_t unlisted = bytes.size();
  if (file_bytes != bytes.size()) return fail("truncated or padded");
  size_t head = kPreambleBytes + size_t{sections} * kSectionEntryBytes;
  if (sections > kMaxSections || head + kTrailerBytes > bytes.size()) return fail("bad table size");
  const uint32_t zero = 0;
  uint32_t actual = Crc32c(bytes.data(), kHeaderCrcAt);
  actual = Crc32c(&zero, sizeof(zero), actual);
  actual = Crc32c(bytes.data() + kHeaderCrcAt + 4, head - kHeaderCrcAt - 4, actual);
  if (actual != crc) return fail("damaged header (checksum)");
  for (uint32_t i = 0; i < sections; i++) {
    Entry entry;
    entry.type = r.Fixed<uint16_t>();
    uint16_t flags = r.Fixed<uint16_t>();
    uint32_t section_crc = r.Fixed<uint32_t>();
    uint64_t offset = r.Fixed<uint64_t>();
    uint64_t stored = r.Fixed<uint64_t>();
    uint64_t raw = r.Fixed<uint64_t>();
    uint64_t end = bytes.size() - kTrailerBytes;
    if (offset < head || offset > end || stored > end - offset) return fail("section out of range");
    // Else a thousand entries could all be the same bytes, to be summed and read a thousand times.
    if (stored > unlisted) return fail("sections overlap");
    unlisted -= stored;
    entry.bytes = bytes.subspan(offset, stored);
    if (Crc32c(entry.bytes.data(), stored) != section_crc)
      return fail("damaged section (checksum)");
    bool known = flags == 0 ? raw == stored : flags == kSectionZstd;
    if (!known) return fail("section stored in a way this version cannot read");
    entry.is_packed = flags == kSectionZstd;
    entry.raw = raw;
    if (entry.is_packed && raw > budget) return fail("sections that unpack to more than 32 MiB");
    if (entry.is_packed) budget -= raw;
    entries->push_back(entry);
  }
  return true;
}

}  // namespace

std::optional<Template> Decode(std::span<const uint8_t> bytes, std::string* error) {
  Template t;
  std::vector<Entry> entries;
  if (!ReadTable(bytes, &t, &entries, error)) return std::nullopt;
  Sha256Digest digest = Sha256Of(bytes.data(), bytes.size() - kTrailerBytes);
  if (std::memcmp(digest.data(), bytes.data() + bytes.size() - kTrailerBytes, kTrailerBytes) != 0) {
    *error = "damaged (SHA-256)";
    return std::nullopt;
  }
  // Files before groups before time marks, whatever the order in the table; unknown types are
  // from a later minor version and skipped.
  for (uint16_t type :
       {kSectionMeta, kSectionFiles, kSectionGroups, kSectionTime, kSectionPhases}) {
    for (const Entry& entry : entries) {
      if (entry.type != type) continue;
      std::vector<uint8_t> unpacked;
      if (entry.is_packed && !Unpack(entry, &unpacked)) {
        *error = "section that does not unpack to its size";
        return std::nullopt;
      }
      ByteReader r(entry.is_packed ? std::span<const uint8_t>(unpacked) : entry.bytes);
      error->clear();
      bool ok = type == kSectionMeta     ? ReadMeta(r, &t)
                : type == kSectionFiles  ? ReadFiles(r, &t)
                : type == kSectionGroups ? ReadGroups(r, &t, error)
                : type == kSectionTime   ? ReadTime(r, &t)
                                         : ReadPhases(r, &t);
      if (!ok) {
        if (error->empty()) *error = "malformed section of type " + std::to_string(type);
        return std::nullopt;
      }
    }
  }
  *error = Check(t);
  if (!error->empty()) return std::nullopt;
  return t;
}

}  // namespace ppc::maio
