// SPDX-License-Identifier: Apache-2.0
// reader [NAME=NUMBER...] FILE...: processes that read all files as engines do, again and again,
// and keep what they have mapped until all have ended.
//   workers     processes, each of which reads everything (1)
//   threads     of each process, which share the blocks of 2 MiB (1)
//   before_ms   initialisation
//   passes      over the files (1); pause_ms between two
//   us_per_mib  each thread waits so long for each MiB
//   reads       1: by pread() into a buffer; 0: a byte of each page of a private mapping (0)
//   populates   1: the mapping is filled by mmap (0)
//   by_turns    1: a pass reads one file, the next pass the next one, each mapped anew (0)
//   order       0 forward, 1 backward, 2 shuffled (0)
//   part        percent of each file (100)
//   grows_mib   memory of its own that each process takes while it reads, bit by bit (0)
//   stop_at     percent of the first pass at which a thread waits for stop_ms
// READY after the first pass of all, the milliseconds of each later one of the first process, and
// what the bytes give, whatever their order.
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { kFiles = 64, kPage = 4096, kMiB = 1 << 20, kBlock = 2 * kMiB, kWorkers = 16, kThreads = 16 };

static struct {
  const char* name;
  long value;
} options[] = {{"workers", 1},    {"threads", 1}, {"before_ms", 0}, {"passes", 1},  {"pause_ms", 0},
               {"us_per_mib", 0}, {"reads", 0},   {"populates", 0}, {"order", 0},   {"part", 100},
               {"grows_mib", 0},  {"stop_at", 0}, {"stop_ms", 0},   {"by_turns", 0}};
enum { kOptions = sizeof(options) / sizeof(options[0]) };

struct Block {
  int file;
  off_t at;
  size_t bytes;
};

// Counts of all processes.
struct Shared {
  atomic_int ready;  // with their first pass
  atomic_ulong sum;
};

static struct Shared* shared;
static int descriptors[kFiles];
static const char* data[kFiles];
static struct Block* blocks;
static long block_count;

static long Get(const char* name) {
  for (int i = 0; i < kOptions; ++i)
    if (strcmp(options[i].name, name) == 0) return options[i].value;
  abort();
}

// Returns 0 for a word that is no option.
static int Set(const char* word) {
  for (int i = 0; i < kOptions; ++i) {
    const size_t length = strlen(options[i].name);
    if (strncmp(word, options[i].name, length) != 0 || word[length] != '=') continue;
    options[i].value = atol(word + length + 1);
    return 1;
  }
  return 0;
}

static double NowMs(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void SleepMs(long ms) {
  if (ms > 0) usleep((useconds_t)ms * 1000);
}

// The part of each file that is read, in blocks in their order.
static int Open(char** paths, int count) {
  const int flags = MAP_PRIVATE | (Get("populates") ? MAP_POPULATE : 0);
  for (int i = 0; i < count; ++i) {
    struct stat status;
    descriptors[i] = open(paths[i], O_RDONLY);
    if (descriptors[i] < 0 || fstat(descriptors[i], &status) != 0) return -1;
    const size_t bytes = (size_t)status.st_size / 100 * (size_t)Get("part") / kPage * kPage;
    if (bytes == 0) continue;
    if (!Get("reads")) {
      data[i] = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, descriptors[i], 0);
      if (data[i] == MAP_FAILED) return -1;
    }
    const long more = (long)((bytes + kBlock - 1) / kBlock);
    blocks = realloc(blocks, (size_t)(block_count + more) * sizeof(*blocks));
    for (long block = 0; block < more; ++block) {
      const size_t at = (size_t)block * kBlock;
      const size_t left = bytes - at;
      blocks[block_count++] = (struct Block){i, (off_t)at, left < kBlock ? left : kBlock};
    }
  }
  unsigned long random = 88172645463325252UL;
  for (long i = 0; i < block_count; ++i) {
    long other = i;
    if (Get("order") == 1) other = block_count - 1 - i < i ? i : block_count - 1 - i;
    if (Get("order") == 2) other = i + (long)((random >> 33) % (unsigned long)(block_count - i));
    random = random * 6364136223846793005UL + 1442695040888963407UL;
    const struct Block kept = blocks[i];
    blocks[i] = blocks[other];
    blocks[other] = kept;
  }
  return 0;
}

static void Close(void) {
  for (long i = 0; i < block_count; ++i) {
    if (blocks[i].at != 0) continue;
    struct stat status;
    if (data[blocks[i].file] != NULL && fstat(descriptors[blocks[i].file], &status) == 0)
      munmap((void*)data[blocks[i].file], (size_t)status.st_size);
    close(descriptors[blocks[i].file]);
  }
  block_count = 0;
}

static unsigned long ReadBlock(const struct Block* block, char* buffer) {
  const useconds_t pace_us = (useconds_t)Get("us_per_mib");
  const char* from = data[block->file] + block->at;
  if (buffer != NULL) {
    const ssize_t got = pread(descriptors[block->file], buffer, block->bytes, block->at);
    if (got != (ssize_t)block->bytes) _exit(1);
    from = buffer;
  }
  unsigned long sum = 0;
  for (size_t at = 0; at < block->bytes; at += kPage) {
    const unsigned long place =
        (unsigned long)block->file * 1048583 + ((size_t)block->at + at) / kPage;
    sum += (*(volatile const unsigned char*)(from + at) + 1UL) * (place * 2654435761UL + 1);
    if (at % kMiB == 0 && pace_us > 0) usleep(pace_us);
  }
  return sum;
}

struct Share {
  long first, pass;
};

static char* own;

// Memory up to `share` of what the process takes.
static void Grow(double share) {
  static size_t taken;
  const size_t wanted = (size_t)((double)Get("grows_mib") * share) * kMiB;
  for (; taken < wanted; taken += kPage) own[taken] = 1;
}

static void* ReadShare(void* argument) {
  const struct Share* share = argument;
  char* const buffer = Get("reads") ? malloc(kBlock) : NULL;
  const long stop = Get("stop_ms") && share->pass == 0 ? block_count * Get("stop_at") / 100 : -1;
  unsigned long sum = 0;
  for (long i = share->first; i < block_count; i += Get("threads")) {
    if (i >= stop && i - Get("threads") < stop) SleepMs(Get("stop_ms"));
    sum += ReadBlock(&blocks[i], buffer);
    if (share->first == 0)
      Grow((double)(share->pass * block_count + i + 1) / (double)(Get("passes") * block_count));
  }
  free(buffer);
  atomic_fetch_add(&shared->sum, sum);
  return NULL;
}

static void Work(int worker, char** paths, int count) {
  SleepMs(Get("before_ms"));
  own = malloc((size_t)Get("grows_mib") * kMiB + 1);
  const int by_turns = (int)Get("by_turns");
  if (own == NULL || (!by_turns && Open(paths, count) != 0)) _exit(1);
  for (long pass = 0; pass < Get("passes"); ++pass) {
    if (by_turns) Close();
    if (by_turns && Open(paths + pass % count, 1) != 0) _exit(1);
    const double begin = NowMs();
    pthread_t threads[kThreads];
    struct Share shares[kThreads];
    for (long i = 0; i < Get("threads"); ++i) {
      shares[i] = (struct Share){i, pass};
      if (pthread_create(&threads[i], NULL, ReadShare, &shares[i]) != 0) _exit(1);
    }
    for (long i = 0; i < Get("threads"); ++i) pthread_join(threads[i], NULL);
    const double took_ms = NowMs() - begin;
    if (pass == 0) {
      atomic_fetch_add(&shared->ready, 1);
      while (atomic_load(&shared->ready) < Get("workers")) SleepMs(1);
    }
    if (worker == 0) {
      if (pass == 0) printf("READY\n");
      if (pass > 0) printf("STEP %.3f\n", took_ms);
      fflush(stdout);
    }
    if (pass + 1 < Get("passes")) SleepMs(Get("pause_ms"));
  }
}

// A worker ends by itself only where it fails.
static void Failed(int signal_number) {
  (void)signal_number;
  _exit(1);
}

int main(int count, char** words) {
  int first = 1;
  while (first < count && Set(words[first])) ++first;
  const long workers = Get("workers");
  if (count == first || count - first > kFiles || workers < 1 || workers > kWorkers ||
      Get("threads") < 1 || Get("threads") > kThreads)
    return 2;
  shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  int done[2];
  if (shared == MAP_FAILED || pipe(done) != 0) return 1;
  signal(SIGCHLD, Failed);
  pid_t pids[kWorkers];
  for (int worker = 0; worker < workers; ++worker) {
    if ((pids[worker] = fork()) != 0) continue;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    Work(worker, words + first, count - first);
    if (write(done[1], "", 1) != 1) _exit(1);
    pause();
  }
  char ended[kWorkers];
  for (ssize_t got = 0; got < workers;) {
    const ssize_t more = read(done[0], ended, (size_t)(workers - got));
    if (more <= 0) return 1;
    got += more;
  }
  printf("DIGEST %lx\n", atomic_load(&shared->sum));
  signal(SIGCHLD, SIG_DFL);
  for (int worker = 0; worker < workers; ++worker) kill(pids[worker], SIGKILL);
  while (wait(NULL) > 0) {
  }
  return 0;
}
