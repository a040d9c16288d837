// SPDX-License-Identifier: Apache-2.0
// Owns what tests have in common that give much damaged input to a parser: how much, damaged JSON,
// and whether memory is kept.
#ifndef PPC_TESTS_UNIT_FUZZ_H_
#define PPC_TESTS_UNIT_FUZZ_H_

#include <gtest/gtest.h>
#include <malloc.h>

#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "daemon/base/json.h"

#ifdef __SANITIZE_ADDRESS__
extern "C" size_t __sanitizer_get_current_allocated_bytes();  // clang alone brings its header
#endif

namespace ppc {

// PPC_FUZZ_MUTATIONS sets how many are tried (tests/all/fuzz-templates).
inline int Mutations(int usual) {
  const char* const given = std::getenv("PPC_FUZZ_MUTATIONS");
  return given != nullptr ? std::atoi(given) : usual;
}

// What is allocated and not freed.  By the allocator's own count: what a process has of the kernel
// says little where freed memory is kept back, as the sanitizer does.
inline uint64_t HeapBytes() {
#ifdef __SANITIZE_ADDRESS__
  return __sanitizer_get_current_allocated_bytes();
#else
  const struct mallinfo2 heap = mallinfo2();
  return heap.uordblks + heap.hblkhd;
#endif
}

// The last nine tenths of `mutations` rounds may keep no memory.
class GrowthCheck {
 public:
  explicit GrowthCheck(int mutations) : settled_(mutations / 10) {}
  ~GrowthCheck() {
    EXPECT_GT(rounds_, settled_);
    EXPECT_LE(HeapBytes(), before_ + kMostKept) << "after " << rounds_ << " rounds";
  }
  GrowthCheck(const GrowthCheck&) = delete;
  GrowthCheck& operator=(const GrowthCheck&) = delete;
  void Round() {
    if (rounds_++ == settled_) before_ = HeapBytes();
  }

 private:
  static constexpr uint64_t kMostKept = 512 << 10;  // freed memory at hand for the next request
  const int settled_;
  int rounds_ = 0;
  uint64_t before_ = 0;
};

inline const Json& OddValue(std::mt19937* rng) {
  static const std::vector<Json> kOdd = {nullptr,
                                         true,
                                         -1,
                                         0,
                                         1.5,
                                         1e308,
                                         uint64_t{1} << 63,
                                         -9223372036854775807LL,
                                         "",
                                         "64M",
                                         "9999999999999G",
                                         std::string(3000, 'x'),
                                         "a\nb",
                                         "\x01",
                                         Json::array(),
                                         {1, 2, 3},
                                         {{"a", 1}},
                                         {-1},
                                         {1e99},
                                         "auto",
                                         "all"};
  return kOdd[(*rng)() % kOdd.size()];
}

// Members replaced or added, or bytes changed.
inline std::string Spoilt(std::mt19937* rng, const Json& sample) {
  Json json = sample;
  for (unsigned times = 1 + (*rng)() % 3; times > 0; times--) {
    auto member = json.begin();
    std::advance(member, static_cast<long>((*rng)() % json.size()));
    switch ((*rng)() % 8) {
      case 0:
        json[std::string(1, static_cast<char>('a' + (*rng)() % 26))] = OddValue(rng);
        break;
      default:
        *member = OddValue(rng);
    }
  }
  std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  for (unsigned times = (*rng)() % 4 == 0 ? 1 + (*rng)() % 3 : 0; times > 0; times--) {
    text[(*rng)() % text.size()] = static_cast<char>((*rng)());
  }
  return text;
}

inline void ExpectOneShortLine(const std::string& error) {
  ASSERT_NE(error, "");
  ASSERT_EQ(error.find('\n'), std::string::npos) << error;
}

// Gives much spoilt JSON to `parse`, a Result: check(value) of what it takes, which some must be; a
// line says why it does not.
template <typename Parse, typename Check>
void FuzzJson(const Json& sample, unsigned seed, const Parse& parse, const Check& check) {
  std::mt19937 rng(seed);
  int taken = 0;
  const int mutations = Mutations(20000);
  GrowthCheck growth(mutations);
  for (int i = 0; i < mutations; i++) {
    growth.Round();
    const auto parsed = parse(Spoilt(&rng, sample));
    if (!parsed) {
      ASSERT_NO_FATAL_FAILURE(ExpectOneShortLine(parsed.error().message));
      continue;
    }
    taken++;
    ASSERT_NO_FATAL_FAILURE(check(*parsed));
  }
  EXPECT_GT(taken, mutations / 100);
}

}  // namespace ppc

#endif  // PPC_TESTS_UNIT_FUZZ_H_
