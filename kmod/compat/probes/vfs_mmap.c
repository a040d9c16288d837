// SPDX-License-Identifier: GPL-2.0-only
/* 6.16: vfs_mmap() replaces call_mmap(); it and can_mmap_file() know ->mmap_prepare(). */
#include <linux/fs.h>

int probe(struct file *file, struct vm_area_struct *vma);
int probe(struct file *file, struct vm_area_struct *vma)
{
	return can_mmap_file(file) ? vfs_mmap(file, vma) : -1;
}
