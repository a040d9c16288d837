// SPDX-License-Identifier: GPL-2.0-only
// What the program of maio_window.bpf.c and its loader share.
#ifndef PPC_EXTRAS_READAHEAD_MAIO_WINDOW_H_
#define PPC_EXTRAS_READAHEAD_MAIO_WINDOW_H_

#define MAIO_CHUNKS 65536
// Ends the order, as the entry of its last chunk and of those that are not in it.
#define MAIO_END 0xffffffffU

enum maio_count { MAIO_MISSES, MAIO_FAULTS, MAIO_MARKS, MAIO_WINDOWS, MAIO_COUNTS };

#endif  // PPC_EXTRAS_READAHEAD_MAIO_WINDOW_H_
