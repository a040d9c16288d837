// SPDX-License-Identifier: GPL-2.0-only
/* 7.1: ->mapped(), only for operations that came from ->mmap_prepare(). */
#include <linux/mm.h>

void probe(struct vm_operations_struct *ops);
void probe(struct vm_operations_struct *ops)
{
	ops->mapped = NULL;
}
