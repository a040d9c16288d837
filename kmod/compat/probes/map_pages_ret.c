// SPDX-License-Identifier: GPL-2.0-only
/* 5.12: ->map_pages() returns what it did. */
#include <linux/mm.h>

vm_fault_t probe(const struct vm_operations_struct *ops, struct vm_fault *vmf);
vm_fault_t probe(const struct vm_operations_struct *ops, struct vm_fault *vmf)
{
	return ops->map_pages(vmf, 0, 0);
}
