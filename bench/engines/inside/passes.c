// SPDX-License-Identifier: Apache-2.0
// passes PASSES PAUSE_MS FILE...: maps all files and reads a byte of each page, in order, PASSES
// times. READY after the first pass, the milliseconds of each later one, the sum of the bytes at
// the end.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { kFiles = 64, kPage = 4096 };

static double NowMs(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

int main(int count, char** words) {
  static const char* data[kFiles];
  static off_t size[kFiles];
  if (count < 4 || count - 3 > kFiles) return 2;
  const int passes = atoi(words[1]), pause_ms = atoi(words[2]), files = count - 3;
  for (int i = 0; i < files; ++i) {
    const int file = open(words[3 + i], O_RDONLY);
    struct stat status;
    if (file < 0 || fstat(file, &status) != 0) return 1;
    size[i] = status.st_size;
    data[i] = mmap(NULL, (size_t)size[i], PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    if (data[i] == MAP_FAILED) return 1;
    close(file);
  }
  unsigned long sum = 0;
  for (int pass = 0; pass < passes; ++pass) {
    const double begin = NowMs();
    for (int i = 0; i < files; ++i) {
      for (off_t at = 0; at < size[i]; at += kPage)
        sum = sum * 31 + *(volatile const unsigned char*)(data[i] + at);
    }
    if (pass == 0) {
      printf("READY\n");
    } else {
      printf("STEP %.3f\n", NowMs() - begin);
    }
    fflush(stdout);
    if (pass + 1 < passes) usleep((useconds_t)pause_ms * 1000);
  }
  printf("DIGEST %lx\n", sum);
  return 0;
}
