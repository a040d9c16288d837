// SPDX-License-Identifier: Apache-2.0
// ppc-attack: programs that try to break the module.  usage: ppc-attack COMMAND [NAME=VALUE]...
// A command prints what it did and how often; the last line says FAIL: and why, if it does.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "attack.h"

namespace ppc::attack {

namespace {

// make path= bytes= [seed=]: a file of known content; the seed is that of its name by default.
int Make(const Words& words) {
  const std::string path = words.TextOption("path");
  const int error = MakeFile(path, words.Option("bytes"), words.Option("seed", SeedOfName(path)));
  if (error) std::printf("FAIL: making %s: %s\n", path.c_str(), strerror(error));
  return error ? 1 : 0;
}

// verify path= [piece=64K] [rounds=1] [pause_ms=0] [advise]: reads and maps it; bytes must be
// right, errors are counted.
int Verify(const Words& words) {
  const std::string path = words.TextOption("path");
  const uint64_t seed = words.Option("seed", SeedOfName(path)),
                 piece = words.Option("piece", 65536);
  const std::string how = words.TextOption("how");
  uint64_t count[4] = {};
  CatchSigbus();
  for (uint64_t round = 0; round < words.Option("rounds", 1); ++round) {
    const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    struct stat status {};
    if (!fd || fstat(fd.get(), &status)) {
      ++count[static_cast<int>(Verdict::kError)];
      usleep(static_cast<useconds_t>(words.Option("pause_ms", 10) * 1000));
      continue;
    }
    const auto bytes = static_cast<uint64_t>(status.st_size);
    void* map = bytes ? mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, fd.get(), 0) : MAP_FAILED;
    for (uint64_t at = 0; at < bytes; at += piece) {
      const size_t n = std::min(piece, bytes - at);
      if (how != "mmap") ++count[static_cast<int>(CheckRead(fd.get(), seed, at, n))];
      if (how == "read" || map == MAP_FAILED) continue;
      ++count[static_cast<int>(CheckMapped(static_cast<std::byte*>(map), seed, at, n))];
    }
    if (map != MAP_FAILED) munmap(map, bytes);
    if (words.Has("advise")) posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);
    usleep(static_cast<useconds_t>(words.Option("pause_ms") * 1000));
  }
  std::printf("verify right=%lu wrong=%lu short=%lu errors=%lu\n", count[0], count[1], count[2],
              count[3]);
  if (count[1]) std::printf("FAIL: wrong bytes in %s\n", path.c_str());
  return count[1] ? 1 : 0;
}

constexpr struct {
  const char* name;
  int (*run)(const Words& words);
} kCommands[] = {
    {"make", Make},         {"verify", Verify},   {"fuzz", Fuzz},     {"mountfuzz", MountFuzz},
    {"storm", Storm},       {"cycles", Cycles},   {"kills", Kills},   {"races", Races},
    {"pressure", Pressure}, {"failnth", FailNth}, {"mapper", Mapper},
};

int Main(int argc, char** argv) {
  std::string line;
  for (int i = 1; i < argc; ++i) line += std::string(argv[i]) + " ";
  const Words words(line);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  for (const auto& command : kCommands) {
    if (!words.empty() && words.verb() == command.name) return command.run(words);
  }
  std::fprintf(stderr, "usage: ppc-attack COMMAND [NAME=VALUE]...; commands:");
  for (const auto& command : kCommands) std::fprintf(stderr, " %s", command.name);
  std::fprintf(stderr, "\n");
  return 2;
}

}  // namespace

}  // namespace ppc::attack

int main(int argc, char** argv) { return ppc::attack::Main(argc, argv); }
