// SPDX-License-Identifier: Apache-2.0
// ranks COUNT INIT_S US_PER_MIB FILE...: so many processes that initialise, map all files, read a byte
// of each page at that pace, and keep what they have mapped.  READY when all have read everything,
// then the sum of the bytes.
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kPage = 4096, kMiB = 1 << 20, kMost = 16 };

static unsigned long Read(char** paths, int count, unsigned pace_us) {
  unsigned long sum = 0;
  for (int i = 0; i < count; ++i) {
    const int file = open(paths[i], O_RDONLY);
    struct stat status;
    if (file < 0 || fstat(file, &status) != 0) _exit(1);
    const char* const data =
        mmap(NULL, (size_t)status.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    if (data == MAP_FAILED) _exit(1);
    close(file);
    for (off_t at = 0; at < status.st_size; at += kPage) {
      sum = sum * 31 + *(volatile const unsigned char*)(data + at);
      if (at % kMiB == 0) usleep(pace_us);
    }
  }
  return sum;
}

int main(int count, char** words) {
  const int ranks = count < 5 ? 0 : atoi(words[1]);
  if (ranks < 1 || ranks > kMost) return 2;
  pid_t pids[kMost];
  int results[2];
  if (pipe(results) != 0) return 1;
  for (int rank = 0; rank < ranks; ++rank) {
    if ((pids[rank] = fork()) != 0) continue;
    sleep((unsigned)atoi(words[2]));
    const unsigned long sum = Read(words + 4, count - 4, (unsigned)atoi(words[3]));
    if (write(results[1], &sum, sizeof(sum)) != sizeof(sum)) _exit(1);
    close(results[1]);
    pause();
  }
  close(results[1]);
  unsigned long all = 0, sum = 0;
  int read_by = 0;
  // A rank that was killed has written nothing.
  while (read_by < ranks && read(results[0], &sum, sizeof(sum)) == sizeof(sum)) {
    all += sum;
    ++read_by;
  }
  if (read_by == ranks) printf("READY\nDIGEST %lx\n", all);
  for (int rank = 0; rank < ranks; ++rank) kill(pids[rank], SIGKILL);
  while (wait(NULL) > 0) {
  }
  return read_by == ranks ? 0 : 1;
}
