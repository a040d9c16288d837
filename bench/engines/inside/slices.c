// SPDX-License-Identifier: Apache-2.0
// slices [NAME=NUMBER...] FILE: computes from a mapped file of which each token needs some slices
// here and there: experts of a mixture, rows of a table.
//   layers      of the model (16), parts: tensors of each layer (3), slices: of each tensor (64)
//   kib         of each slice (512)
//   used        slices of each layer that a token needs, the same ones of each part (4)
//   zipf        hundredths: the n-th most wanted slice is chosen as n to the power of -zipf/100
//   (110) sticky      percent: the next token needs the same slice (50) tokens      so many (64);
//   half way others are the most wanted ones us          of the CPU's time for each part of a slice
//   (50) populates   1: the mapping is filled by mmap; 0: nothing is read before the first token
//   (1)
// The layout is that of safetensors: after the header layer by layer, part by part, slice by slice.
// READY, the milliseconds of each token, and what the bytes give.
#include <fcntl.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "options.h"

static struct Option options[] = {{"layers", 16}, {"parts", 3},     {"slices", 64}, {"kib", 512},
                                  {"used", 4},    {"sticky", 50},   {"tokens", 64}, {"zipf", 110},
                                  {"us", 50},     {"populates", 1}, {NULL, 0}};

static const char* data;  // behind the header
static size_t bytes;      // of a slice
static double* shares;    // of the most wanted slices, up to the n-th
static long* by_rank;     // of each layer: slices, the most wanted first
static long* chosen;      // of each layer

static double Random(void) {
  static unsigned long state = 88172645463325252UL;
  state = state * 6364136223846793005UL + 1442695040888963407UL;
  return (double)(state >> 11) / (double)(1UL << 53);
}

static int Map(const char* path) {
  uint64_t header;
  struct stat status;
  const int file = open(path, O_RDONLY);
  if (file < 0 || fstat(file, &status) != 0 || pread(file, &header, 8, 0) != 8) return -1;
  const size_t all = 8 + header + (size_t)(Get("layers") * Get("parts") * Get("slices")) * bytes;
  if ((size_t)status.st_size < all) return -1;
  const int flags = MAP_PRIVATE | (Get("populates") ? MAP_POPULATE : 0);
  const char* const mapping = mmap(NULL, (size_t)status.st_size, PROT_READ, flags, file, 0);
  data = mapping + 8 + header;
  return mapping == MAP_FAILED ? -1 : 0;
}

static int Weigh(void) {
  const long slices = Get("slices"), layers = Get("layers");
  shares = calloc((size_t)slices, sizeof(*shares));
  by_rank = calloc((size_t)(slices * layers), sizeof(*by_rank));
  chosen = calloc((size_t)(Get("used") * layers), sizeof(*chosen));
  if (shares == NULL || by_rank == NULL || chosen == NULL) return -1;
  double sum = 0;
  for (long i = 0; i < slices; ++i)
    shares[i] = sum += pow((double)i + 1, -(double)Get("zipf") / 100);
  return 0;
}

// Another topic: others are the most wanted ones.
static void Shuffle(void) {
  const long slices = Get("slices");
  for (long layer = 0; layer < Get("layers"); ++layer) {
    long* const its = by_rank + layer * slices;
    for (long i = 0; i < slices; ++i) {
      const long other = (long)(Random() * (double)(i + 1));
      its[i] = its[other];
      its[other] = i;
    }
  }
}

static long Draw(long layer) {
  const double at = Random() * shares[Get("slices") - 1];
  long low = 0, high = Get("slices") - 1;
  while (low < high) {
    const long middle = (low + high) / 2;
    if (shares[middle] > at)
      high = middle;
    else
      low = middle + 1;
  }
  return by_rank[layer * Get("slices") + low];
}

// Chooses no slice of a layer twice.
static void Choose(long layer, int is_first) {
  const long used = Get("used");
  long* const its = chosen + layer * used;
  for (long i = 0; i < used; ++i) {
    if (!is_first && Random() * 100 < (double)Get("sticky")) continue;
    for (int is_new = 0; !is_new;) {
      its[i] = Draw(layer);
      is_new = 1;
      for (long k = 0; k < (is_first ? i : used); ++k) is_new &= k == i || its[k] != its[i];
    }
  }
}

static void Compute(long us) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  for (const long end = now.tv_sec * 1000000 + now.tv_nsec / 1000 + us;
       now.tv_sec * 1000000 + now.tv_nsec / 1000 < end;)
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
}

static unsigned long Token(int is_first) {
  unsigned long sum = 0;
  for (long layer = 0; layer < Get("layers"); ++layer) {
    Choose(layer, is_first);
    for (long part = 0; part < Get("parts"); ++part) {
      for (long i = 0; i < Get("used"); ++i) {
        const size_t slice = (size_t)((layer * Get("parts") + part) * Get("slices") +
                                      chosen[layer * Get("used") + i]);
        for (size_t at = 0; at < bytes; at += kPage)
          sum += Taste(data + slice * bytes + at, (slice * bytes + at) / kPage);
        Compute(Get("us"));
      }
    }
  }
  return sum;
}

int main(int count, char** words) {
  int first = 1;
  while (first < count && Set(words[first])) ++first;
  if (count != first + 1 || Get("used") < 1 || Get("used") > Get("slices") / 2) return 2;
  bytes = (size_t)Get("kib") * 1024;
  if (Map(words[first]) != 0 || Weigh() != 0) return 1;
  printf("READY\n");
  fflush(stdout);
  unsigned long sum = 0;
  for (long token = 0; token < Get("tokens"); ++token) {
    if (token == 0 || token == Get("tokens") / 2) Shuffle();
    const double begin = NowMs();
    sum = sum * 31 + Token(token == 0);
    printf("STEP %.3f\n", NowMs() - begin);
    fflush(stdout);
  }
  printf("DIGEST %lx\n", sum);
  return 0;
}
