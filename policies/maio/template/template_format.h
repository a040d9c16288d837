// SPDX-License-Identifier: Apache-2.0
//
// Constants of the PPCT format and the byte-level reader and writer that the
// encoder and the decoder share.  The reader never goes out of bounds: after
// the first bad read it stays failed and returns zeros.
#ifndef POLICIES_MAIO_TEMPLATE_TEMPLATE_FORMAT_H_
#define POLICIES_MAIO_TEMPLATE_TEMPLATE_FORMAT_H_

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "policies/maio/template/template.h"

namespace ppc::maio {

inline constexpr uint8_t kMagic[8] = {'P', 'P', 'C', 'T', '\r', '\n', 0x1a, '\n'};
inline constexpr uint16_t kMajor = 2;
inline constexpr uint16_t kMinor = 1;  // of a template with phases; one without is as before
inline constexpr size_t kPreambleBytes = 64;
inline constexpr size_t kSectionEntryBytes = 32;
inline constexpr size_t kTrailerBytes = 32;
inline constexpr uint32_t kMaxSections = 1024;
// Of all sections together when unpacked, which is done one by one; with packed extents a short
// file cannot ask for more memory than this.
inline constexpr uint64_t kMaxRawBytes = 32u << 20;

enum SectionFlag : uint16_t {
  kSectionZstd = 1,  // one zstd frame that tells its size
};

// Offsets within the preamble.
inline constexpr size_t kHeaderCrcAt = 44;

enum SectionType : uint16_t {
  kSectionMeta = 1,
  kSectionFiles = 2,
  kSectionGroups = 3,  // of one node
  kSectionTime = 5,
  kSectionPhases = 6,  // minor version 1
};

enum Opcode : uint8_t {
  kOpEnd = 0,     //
  kOpRun = 1,     // dpage(zigzag) pages
  kOpFile = 2,    // dfile(zigzag) dpage(zigzag) pages
  kOpStride = 3,  // dpage(zigzag) pages stride_pages count
};

struct Section {
  uint16_t type;
  std::vector<uint8_t> bytes;
  uint16_t flags = 0;
  uint64_t raw_bytes = 0;
};

// Encode(); tests also want sections that are easy to damage, and others than Encode() makes.
std::vector<uint8_t> EncodeSections(const Template& t, bool compress);
std::vector<uint8_t> Assemble(const Template& t, std::vector<Section> sections, bool compress);

inline uint64_t Zigzag(int64_t v) {
  return (static_cast<uint64_t>(v) << 1) ^ static_cast<uint64_t>(v >> 63);
}
inline int64_t Unzigzag(uint64_t v) {
  return static_cast<int64_t>(v >> 1) ^ -static_cast<int64_t>(v & 1);
}

class ByteWriter {
 public:
  template <typename T>
  void Fixed(T value) {
    for (size_t i = 0; i < sizeof(T); i++) bytes_.push_back(static_cast<uint8_t>(value >> (8 * i)));
  }
  void Varint(uint64_t value) {
    while (value >= 0x80) {
      bytes_.push_back(static_cast<uint8_t>(value | 0x80));
      value >>= 7;
    }
    bytes_.push_back(static_cast<uint8_t>(value));
  }
  void Signed(int64_t value) { Varint(Zigzag(value)); }
  void Raw(const void* data, size_t n) {
    const auto* p = static_cast<const uint8_t*>(data);
    bytes_.insert(bytes_.end(), p, p + n);
  }
  void Raw(const std::string& s) { Raw(s.data(), s.size()); }
  std::vector<uint8_t>& bytes() { return bytes_; }

 private:
  std::vector<uint8_t> bytes_;
};

class ByteReader {
 public:
  explicit ByteReader(std::span<const uint8_t> bytes) : bytes_(bytes) {}

  template <typename T>
  T Fixed() {
    if (!Need(sizeof(T))) return 0;
    uint64_t value = 0;
    for (size_t i = 0; i < sizeof(T); i++) value |= uint64_t{bytes_[at_ + i]} << (8 * i);
    at_ += sizeof(T);
    return static_cast<T>(value);
  }
  uint64_t Varint() {
    if (ok_ && at_ < bytes_.size() && bytes_[at_] < 0x80) return bytes_[at_++];  // nearly all
    uint64_t value = 0;
    for (int shift = 0; shift < 70; shift += 7) {
      if (!Need(1)) return 0;
      uint8_t byte = bytes_[at_++];
      if (shift == 63 && byte > 1) break;
      value |= uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return value;
    }
    ok_ = false;
    return 0;
  }
  int64_t Signed() { return Unzigzag(Varint()); }
  std::string String(uint64_t n) {
    if (!Need(n)) return "";
    std::string s(reinterpret_cast<const char*>(bytes_.data() + at_), n);
    at_ += n;
    return s;
  }
  void Raw(void* out, size_t n) {
    if (!Need(n)) return;
    std::memcpy(out, bytes_.data() + at_, n);
    at_ += n;
  }
  bool ok() const { return ok_; }
  size_t left() const { return bytes_.size() - at_; }

 private:
  bool Need(uint64_t n) {
    if (!ok_ || n > left()) ok_ = false;
    return ok_;
  }

  std::span<const uint8_t> bytes_;
  size_t at_ = 0;
  bool ok_ = true;
};

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_TEMPLATE_TEMPLATE_FORMAT_H_
