// SPDX-License-Identifier: Apache-2.0
// Owns options by name, the clock and a checksum of bytes, for the small readers beside this file.
#ifndef BENCH_ENGINES_INSIDE_OPTIONS_H_
#define BENCH_ENGINES_INSIDE_OPTIONS_H_

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { kPage = 4096, kMiB = 1 << 20 };

struct Option {
  const char* name;
  long value;
};

// The program's own, with a name of NULL at the end.
static struct Option options[];

static long Get(const char* name) {
  for (int i = 0; options[i].name != NULL; ++i)
    if (strcmp(options[i].name, name) == 0) return options[i].value;
  abort();
}

// Returns 0 for a word that is no option.
static int Set(const char* word) {
  for (int i = 0; options[i].name != NULL; ++i) {
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

// The byte at `from`, page `place` of all.
static unsigned long Taste(const char* from, unsigned long place) {
  return (*(volatile const unsigned char*)from + 1UL) * (place * 2654435761UL + 1);
}

#endif  // BENCH_ENGINES_INSIDE_OPTIONS_H_
