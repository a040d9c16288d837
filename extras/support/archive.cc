// SPDX-License-Identifier: Apache-2.0
#include "extras/support/archive.h"

#include <zstd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace ppc::ctl {
namespace {

constexpr size_t kBlock = 512;

// POSIX.1-1988's header; numbers are octal text.
struct Header {
  std::array<char, 100> name;
  std::array<char, 8> mode;
  std::array<char, 8> uid;
  std::array<char, 8> gid;
  std::array<char, 12> size;
  std::array<char, 12> mtime;
  std::array<char, 8> checksum;
  char type;
  std::array<char, 100> link;
  std::array<char, 8> magic;
  std::array<char, 247> rest;  // users' names, devices, a prefix: unused
};
static_assert(sizeof(Header) == kBlock);

template <size_t size>
void PutOctal(std::array<char, size>* field, uint64_t value) {
  for (size_t i = size - 1; i-- > 0; value >>= 3) {
    (*field)[i] = static_cast<char>('0' + (value & 7));
  }
}

std::string HeaderOf(const BundleFile& file, uint64_t time_s) {
  Header header{};
  std::memcpy(header.name.data(), file.name.data(), std::min(file.name.size(), size_t{99}));
  PutOctal(&header.mode, 0600);
  PutOctal(&header.uid, 0);
  PutOctal(&header.gid, 0);
  PutOctal(&header.size, file.text.size());
  PutOctal(&header.mtime, time_s);
  header.type = '0';
  std::memcpy(header.magic.data(), "ustar\00000", 8);
  // The checksum is computed with blanks in its place.
  header.checksum.fill(' ');
  std::string text(reinterpret_cast<const char*>(&header), sizeof(header));
  uint64_t sum = 0;
  for (const char c : text) sum += static_cast<unsigned char>(c);
  std::array<char, 8> field{};
  std::snprintf(field.data(), field.size(), "%06o", static_cast<unsigned>(sum));
  field[7] = ' ';
  text.replace(offsetof(Header, checksum), field.size(), field.data(), field.size());
  return text;
}

}  // namespace

std::string TarOf(const std::vector<BundleFile>& files, uint64_t time_s) {
  std::string tar;
  for (const BundleFile& file : files) {
    tar += HeaderOf(file, time_s) + file.text;
    tar.resize((tar.size() + kBlock - 1) / kBlock * kBlock);
  }
  tar.resize(tar.size() + 2 * kBlock);
  return tar;
}

Result<std::string> Compressed(const std::string& data) {
  std::string out(ZSTD_compressBound(data.size()), '\0');
  const size_t bytes = ZSTD_compress(out.data(), out.size(), data.data(), data.size(), 3);
  if (ZSTD_isError(bytes) != 0) return Error{EIO, std::string("zstd: ") + ZSTD_getErrorName(bytes)};
  out.resize(bytes);
  return out;
}

}  // namespace ppc::ctl
