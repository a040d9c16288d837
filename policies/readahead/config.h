/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns what a user can set of the read-ahead policy.
 * Threads: pure functions, any thread.
 */
#ifndef POLICIES_READAHEAD_CONFIG_H_
#define POLICIES_READAHEAD_CONFIG_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct readahead_config {
  uint64_t window_min; /* bytes, so the others */
  uint64_t window_max;
  uint64_t behind;
  int evict;
  int unmap;
};

/*
 * The defaults, and what "text", an object of JSON, says else.  0; -1: it is wrong, and "error" has
 * one line that names the option, what it must be and what it is, of at most "size" bytes.
 */
int readahead_read_config(const char* text, struct readahead_config* config, char* error,
                          size_t size);

#ifdef __cplusplus
}
#endif

#endif /* POLICIES_READAHEAD_CONFIG_H_ */
