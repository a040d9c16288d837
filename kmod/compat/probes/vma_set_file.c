// SPDX-License-Identifier: GPL-2.0-only
/* 5.11: vma_set_file(). */
#include <linux/mm.h>

void probe(struct vm_area_struct *vma, struct file *file);
void probe(struct vm_area_struct *vma, struct file *file)
{
	vma_set_file(vma, file);
}
