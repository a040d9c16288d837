// SPDX-License-Identifier: GPL-2.0-only
/* 6.7: faults on files hold mmap_lock or the VMA lock; this function drops either. */
#include <linux/mm.h>

void probe(struct vm_fault *vmf);
void probe(struct vm_fault *vmf)
{
	release_fault_lock(vmf);
}
