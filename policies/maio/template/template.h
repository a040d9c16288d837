// SPDX-License-Identifier: Apache-2.0
//
// The I/O template of a service (paper, section 4.1): which ranges of which
// files each worker reads, in which order.  This header owns the type and the
// file format PPCT version 2; ppcctl and tests use it too.
//
// Format: little endian.  Preamble of 64 bytes, section table, sections,
// SHA-256 of everything before.  See docs/template-format.md.
//
// Sequences: a group lists its extents in the order of first touch; an extent
// that is read again much later is listed again.  Positions are bytes along
// that list.  Which pages several groups share is derived, not stored.
//
// Threads: values, no shared state.  Nothing here throws; malformed input of
// any kind is an error text, never a crash.
#ifndef POLICIES_MAIO_TEMPLATE_TEMPLATE_H_
#define POLICIES_MAIO_TEMPLATE_TEMPLATE_H_

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "policies/maio/base/names.h"
#include "policies/maio/template/extent_list.h"
#include "policies/maio/template/file_kind.h"

namespace ppc::maio {

using Fingerprint = std::array<uint8_t, 16>;

inline constexpr uint64_t kPage = 4096;  // unit of templates on every host

inline constexpr uint32_t kMaxFiles = 65536;
inline constexpr size_t kMaxPathBytes = 8 << 20;  // of all files together
inline constexpr size_t kMaxMetaBytes = 1 << 20;
inline constexpr uint32_t kMaxTemplateGroups = kMaxWorkers + 1;  // each worker, and all processes
inline constexpr uint32_t kMaxExtents = 1u << 20;                // per group
inline constexpr uint64_t kMaxTotalExtents = 4ull << 20;
inline constexpr uint64_t kMaxFileBytes = 1ull << 44;    // 2^32 pages
inline constexpr uint64_t kTimeMarkBytes = 64ull << 20;  // one time mark per so many bytes
inline constexpr size_t kMaxTimeMarks = 1u << 20;        // of all groups together
inline constexpr size_t kMaxTemplateBytes = 48u << 20;
// What decoding takes at most, beside the file, whatever the file says.
inline constexpr size_t kMaxDecodingBytes = 128u << 20;

enum TemplateFlag : uint32_t {
  kComplete = 1u << 0,     // the service became ready while it was recorded
  kSynthetic = 1u << 1,    // made from file headers, not recorded
  kTraced = 1u << 2,       // hits were seen too
  kWarmSuspect = 1u << 3,  // may have holes: misses alone on a warm cache, or sampled
  kPartial = 1u << 4,      // ended before ready: usable up to its end
  kMerged = 1u << 5,       // of several parts
  kRerecord = 1u << 6,     // somebody asked for a new recording
  kOverflow = 1u << 7,     // more extents than a template holds: the rest follows from the headers
};

// Templates with one of these are followed while the start is recorded anew.
inline constexpr uint32_t kProvisional = kSynthetic | kWarmSuspect | kPartial | kRerecord;

struct TemplateFile {
  std::string path;  // relative to the mount
  uint64_t size = 0;
  int64_t mtime_ns = 0;
  FileKind kind = FileKind::kOther;
  Fingerprint fingerprint = {};  // all zero: not known
};

struct TemplateGroup {
  uint32_t id = 0;  // worker number or kCommonGroup
  uint32_t node = 0;
  uint64_t first_ms = 0;  // since the start of the service
  uint64_t last_ms = 0;
  uint64_t repeat_bytes = 0;    // read again soon after and not listed again
  uint64_t overread_bytes = 0;  // gaps that merging filled
  ExtentList extents;
  std::vector<uint32_t> time_ms;  // since the previous mark, one per kTimeMarkBytes
};

// Parts of a start-up, in the order in which they come; a service tells of those that it has.
enum class Phase : uint8_t { kInit = 0, kWeights = 1, kCompile = 2, kGraphs = 3, kReady = 4 };
inline constexpr size_t kPhases = 5;
const char* PhaseName(Phase phase);
std::optional<Phase> ParsePhase(const std::string& name);

// When a phase began, by the clock and by what had been read.
struct PhaseMark {
  Phase phase = Phase::kInit;
  bool is_told = false;  // by the service; else it was seen: the model began to be read
  uint64_t ms = 0;       // since the start of the service
  std::vector<std::pair<uint32_t, uint64_t>> positions;  // group, bytes of its sequence
};

struct Template {
  uint32_t flags = 0;
  std::string service_id;
  uint64_t created_ns = 0;
  uint64_t generation = 0;
  std::string meta = "{}";  // canonical JSON
  std::vector<TemplateFile> files;
  std::vector<TemplateGroup> groups;
  std::vector<PhaseMark> phases;  // at most one of each, in the order of time
};

// Bytes of one group's sequence / of all distinct pages of all groups.
uint64_t SequenceBytes(const TemplateGroup& group);
uint64_t DistinctBytes(const Template& t);
// What its service had taken for itself before it read the model; 0: not known.
uint64_t OwnBytes(const Template& t);

// Relative, no empty, "." or ".." component, no NUL, at most 4095 bytes.
bool ValidPath(const std::string& path);
// Empty when the template can be encoded and used, else what is wrong with it.
std::string Check(const Template& t);

std::vector<uint8_t> Encode(const Template& t);
// Empty on malformed input; *error says why.
std::optional<Template> Decode(std::span<const uint8_t> bytes, std::string* error);

// Where a template lives below a store directory; empty for an invalid ID.  Nodes that record
// their own workers keep parts beside it, <ID>.n<node>.part.ppct, which Merge() puts together.
std::string TemplatePath(const std::string& store, const std::string& service_id);
std::string PartPath(const std::string& store, const std::string& service_id, uint32_t node);
// Atomic (temporary file, fsync, rename, fsync of the directory).  0 or -errno.
int Store(const std::string& store, const Template& t, std::string* error);
// The same under another name than its service's, of a part.
int StoreAs(const std::string& store, const std::string& name, const Template& t,
            std::string* error);
// -ENOENT: there is none; -EINVAL: malformed; *error says what.
int Load(const std::string& path, Template* out, std::string* error);

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_TEMPLATE_TEMPLATE_H_
