// SPDX-License-Identifier: Apache-2.0
// The decoder against damaged and hostile bytes.  Build with PPC_SANITIZE to
// make out-of-bounds accesses visible (tests/all/fuzz-templates does).
#include <gtest/gtest.h>

#include <random>

#include "daemon/base/digests.h"
#include "policies/maio/template/template_format.h"
#include "tests/unit/fuzz.h"
#include "tests/unit/has.h"
#include "tests/unit/policies/template_samples.h"

namespace ppc::maio {
namespace {

// Not the code's own check: nothing that leaves the mount or confuses a C string.
bool StaysInside(const std::string& path) {
  if (path.empty() || path.front() == '/' || path.size() > 4095) return false;
  if (path.find('\0') != std::string::npos) return false;
  return ("/" + path + "/").find("/../") == std::string::npos;
}

void PutLittle(std::vector<uint8_t>* bytes, size_t at, uint64_t value, size_t n) {
  for (size_t i = 0; i < n; i++) (*bytes)[at + i] = static_cast<uint8_t>(value >> (8 * i));
}
uint64_t GetLittle(const std::vector<uint8_t>& bytes, size_t at, size_t n) {
  uint64_t value = 0;
  for (size_t i = 0; i < n; i++) value |= uint64_t{bytes[at + i]} << (8 * i);
  return value;
}

// Makes all checksums right again, so that damage gets past them to the parser.
void Reseal(std::vector<uint8_t>* bytes) {
  if (bytes->size() < kPreambleBytes + kTrailerBytes) return;
  PutLittle(bytes, 48, bytes->size(), 8);
  size_t sections = GetLittle(*bytes, 40, 4);
  size_t head = kPreambleBytes + sections * kSectionEntryBytes;
  if (sections > kMaxSections || head + kTrailerBytes > bytes->size()) return;
  for (size_t i = 0; i < sections; i++) {
    size_t entry = kPreambleBytes + i * kSectionEntryBytes;
    uint64_t offset = GetLittle(*bytes, entry + 8, 8);
    uint64_t length = GetLittle(*bytes, entry + 16, 8);
    if (offset > bytes->size() || length > bytes->size() - offset) continue;
    PutLittle(bytes, entry + 4, Crc32c(bytes->data() + offset, length), 4);
  }
  PutLittle(bytes, kHeaderCrcAt, 0, 4);
  PutLittle(bytes, kHeaderCrcAt, Crc32c(bytes->data(), head), 4);
  Sha256Digest digest = Sha256Of(bytes->data(), bytes->size() - kTrailerBytes);
  std::copy(digest.begin(), digest.end(), bytes->end() - kTrailerBytes);
}

void Mutate(std::mt19937* rng, std::vector<uint8_t>* bytes) {
  int times = 1 + static_cast<int>((*rng)() % 4);
  for (int i = 0; i < times && !bytes->empty(); i++) {
    size_t at = (*rng)() % bytes->size();
    switch ((*rng)() % 5) {
      case 0:
        (*bytes)[at] = static_cast<uint8_t>((*rng)());
        break;
      case 1:
        (*bytes)[at] ^= static_cast<uint8_t>(1u << ((*rng)() % 8));
        break;
      case 2:
        bytes->erase(bytes->begin() + static_cast<long>(at));
        break;
      case 3:
        bytes->insert(bytes->begin() + static_cast<long>(at),
                      static_cast<uint8_t>((*rng)() % 2 ? 0xff : 0));
        break;
      default:
        for (size_t j = at; j < std::min(at + 9, bytes->size()); j++) (*bytes)[j] = 0xff;
    }
  }
}

TEST(TemplateFuzz, NoTruncationIsAccepted) {
  std::vector<uint8_t> good = Encode(SampleTemplate());
  std::string error;
  for (size_t n = 0; n < good.size(); n++) {
    EXPECT_FALSE(Decode(std::span(good.data(), n), &error).has_value()) << n;
  }
}

TEST(TemplateFuzz, NoFlippedBitIsAccepted) {
  std::vector<uint8_t> good = Encode(SampleTemplate());
  std::string error;
  for (size_t at = 0; at < good.size(); at++) {
    for (int bit = 0; bit < 8; bit += 3) {
      std::vector<uint8_t> bad = good;
      bad[at] ^= static_cast<uint8_t>(1u << bit);
      EXPECT_FALSE(Decode(bad, &error).has_value()) << at;
    }
  }
}

// Paths are where a template could reach out of the mount: damage aims there, too.
void SpoilPath(std::mt19937* rng, Template* t) {
  const std::string kBad[] = {"../",  "/",      "..", "./", "//", std::string(1, '\0'),
                              "\xff", "a/../.."};
  std::string& path = t->files[(*rng)() % t->files.size()].path;
  const std::string& bad = kBad[(*rng)() % std::size(kBad)];
  path.insert((*rng)() % (path.size() + 1), bad);
}

// What gets through is safe to use.
TEST(TemplateFuzz, ResealedMutationsAreRefusedOrValid) {
  std::mt19937 rng(20240229);
  const Template sample = SampleTemplate();
  const std::vector<uint8_t> plain = EncodeSections(sample, /*compress=*/false);
  const std::vector<uint8_t> packed = Encode(sample);
  int accepted = 0;
  int refused_paths = 0;
  const int mutations = Mutations(60000);
  GrowthCheck growth(mutations);
  for (int i = 0; i < mutations; i++) {
    growth.Round();
    std::vector<uint8_t> bytes = i % 4 == 3 ? packed : plain;
    if (i % 4 == 2) {
      Template t = sample;
      SpoilPath(&rng, &t);
      bytes = EncodeSections(t, /*compress=*/i % 8 == 2);
      if (rng() % 4 == 0) Mutate(&rng, &bytes);
    } else {
      Mutate(&rng, &bytes);
    }
    if (i % 8 != 0) Reseal(&bytes);
    std::string error;
    std::optional<Template> t = Decode(bytes, &error);
    if (!t) {
      ASSERT_NE(error, "");
      refused_paths += error.find("path") != std::string::npos;
      continue;
    }
    accepted++;
    ASSERT_EQ(Check(*t), "");
    for (const TemplateFile& file : t->files) ASSERT_TRUE(StaysInside(file.path)) << file.path;
    std::string again;
    ASSERT_TRUE(Decode(EncodeSections(*t, /*compress=*/false), &again).has_value()) << again;
  }
  EXPECT_GT(accepted, mutations / 1000);  // else the mutations do not reach the parser
  EXPECT_GT(refused_paths, mutations / 100);
}

// Few bytes that would unpack to much, and sizes that lie.
TEST(TemplateFuzz, NoSmallFileUnpacksToMuch) {
  Template t = SampleTemplate();
  t.meta = "\"" + std::string(kMaxRawBytes, 'x') + "\"";
  std::vector<uint8_t> bytes = Encode(t);
  ASSERT_LT(bytes.size(), 1u << 20);
  std::string error;
  EXPECT_FALSE(Decode(bytes, &error).has_value());
  EXPECT_TRUE(Has(error, "unpack"));

  t.meta = "\"" + std::string(100000, 'x') + "\"";
  bytes = Encode(t);
  ASSERT_TRUE(Decode(bytes, &error).has_value()) << error;
  for (uint64_t raw : {uint64_t{0}, uint64_t{99}, uint64_t{200000}, ~uint64_t{0}}) {
    PutLittle(&bytes, kPreambleBytes + 24, raw, 8);
    Reseal(&bytes);
    EXPECT_FALSE(Decode(bytes, &error).has_value()) << raw;
  }
}

TEST(TemplateFuzz, SectionsDoNotOverlap) {
  std::vector<uint8_t> bytes = EncodeSections(SampleTemplate(), /*compress=*/false);
  const size_t sections = GetLittle(bytes, 40, 4);
  const size_t head = kPreambleBytes + sections * kSectionEntryBytes;
  for (size_t i = 0; i < sections; i++) {
    const size_t entry = kPreambleBytes + i * kSectionEntryBytes;
    PutLittle(&bytes, entry + 8, head, 8);
    PutLittle(&bytes, entry + 16, bytes.size() - kTrailerBytes - head, 8);
    PutLittle(&bytes, entry + 24, bytes.size() - kTrailerBytes - head, 8);
  }
  Reseal(&bytes);
  std::string error;
  EXPECT_FALSE(Decode(bytes, &error).has_value());
  EXPECT_EQ(error, "sections overlap");
}

}  // namespace
}  // namespace ppc::maio
