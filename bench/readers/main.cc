// SPDX-License-Identifier: Apache-2.0
// ppc-readers: very many files, and processes that read them, for bench/scale.
//   make DIR FILES               files of 4 KiB, a thousand a folder
//   read DIR FILES PROCESSES     each process reads its part of them once, none of which stays
//   cached fork DIR FILES COUNT         one child after the other, eight at a time, that reads a
//   file and ends hold DIR FILES COUNT         so many children, each of which reads a file and
//   stays until stdin ends
// Prints the seconds that it took; status 1 where a file could not be read.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

constexpr int kBlock = 4096;
constexpr int kFolder = 1000;
constexpr int kAtOnce = 8;

std::string NameOf(const std::string& top, int number) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "/%04d/%07d", number / kFolder, number);
  return top + text.data();
}

bool Make(const std::string& top, int files) {
  const std::array<char, kBlock> block{};
  for (int number = 0; number < files; ++number) {
    const std::string name = NameOf(top, number);
    if (number % kFolder == 0) mkdir(name.substr(0, name.rfind('/')).c_str(), 0755);
    const int fd = open(name.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    if (fd < 0 || write(fd, block.data(), block.size()) != kBlock) return false;
    close(fd);
  }
  return true;
}

bool ReadFile(const std::string& name) {
  std::array<char, kBlock> block{};
  const int fd = open(name.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool is_read = read(fd, block.data(), block.size()) == kBlock;
  posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  close(fd);
  return is_read;
}

bool ReadPart(const std::string& top, int files, int part, int parts) {
  for (int number = part; number < files; number += parts) {
    if (!ReadFile(NameOf(top, number))) return false;
  }
  return true;
}

// A child that has ended; false: it failed.
bool Reap() {
  int status = 0;
  return wait(&status) > 0 && status == 0;
}

bool Read(const std::string& top, int files, int processes) {
  for (int part = 0; part < processes; ++part) {
    if (fork() == 0) _exit(ReadPart(top, files, part, processes) ? 0 : 1);
  }
  bool is_right = true;
  for (int part = 0; part < processes; ++part) is_right = Reap() && is_right;
  return is_right;
}

bool Fork(const std::string& top, int files, int count) {
  bool is_right = true;
  for (int number = 0; number < count; ++number) {
    if (number >= kAtOnce) is_right = Reap() && is_right;
    if (fork() == 0) _exit(ReadFile(NameOf(top, number % files)) ? 0 : 1);
  }
  while (wait(nullptr) > 0) {
  }
  return is_right;
}

bool Hold(const std::string& top, int files, int count) {
  std::array<int, 2> done{};
  if (pipe(done.data()) != 0) return false;
  for (int number = 0; number < count; ++number) {
    const pid_t child = fork();
    if (child < 0) return false;
    if (child != 0) continue;
    const char said = ReadFile(NameOf(top, number % files)) ? 'y' : 'n';
    if (write(done[1], &said, 1) != 1) _exit(1);
    for (;;) pause();
  }
  bool is_right = true;
  for (int number = 0; number < count; ++number) {
    char said = 'n';
    is_right = read(done[0], &said, 1) == 1 && said == 'y' && is_right;
  }
  return is_right;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: ppc-readers make|read|fork|hold DIR FILES [COUNT]\n");
    return 2;
  }
  const std::string verb = argv[1];
  const std::string top = argv[2];
  const int files = std::atoi(argv[3]);
  const int count = argc > 4 ? std::atoi(argv[4]) : 1;
  const auto began = std::chrono::steady_clock::now();
  bool is_right = false;
  if (verb == "make") is_right = Make(top, files);
  if (verb == "read") is_right = Read(top, files, count);
  if (verb == "fork") is_right = Fork(top, files, count);
  if (verb == "hold") is_right = Hold(top, files, count);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  std::printf("%.3f\n", took.count());
  std::fflush(stdout);
  if (verb == "hold") {
    while (std::getchar() != EOF) {
    }
    signal(SIGTERM, SIG_IGN);
    kill(0, SIGTERM);  // the children: the caller gives it a group of its own
  }
  return is_right ? 0 : 1;
}
