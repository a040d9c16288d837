// SPDX-License-Identifier: GPL-2.0-only
/* 6.7: faults of files come with mmap_lock or with the lock of the VMA, and this drops either. */
#include <linux/mm.h>

void probe(struct vm_fault *vmf);
void probe(struct vm_fault *vmf)
{
	release_fault_lock(vmf);
}
