// SPDX-License-Identifier: GPL-2.0-only
/* 7.1: ->mapped(), only for operations that came from ->mmap_prepare(). */
#include <linux/mm.h>

extern const struct vm_operations_struct probe;
const struct vm_operations_struct probe = { .mapped = NULL };
