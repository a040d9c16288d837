// SPDX-License-Identifier: GPL-2.0-only
/* 6.3: vma->vm_flags is changed through helpers only. */
#include <linux/mm.h>

void probe(struct vm_area_struct *vma);
void probe(struct vm_area_struct *vma)
{
	vm_flags_clear(vma, VM_MAYWRITE);
}
