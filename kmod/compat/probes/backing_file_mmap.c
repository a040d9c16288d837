// SPDX-License-Identifier: GPL-2.0-only
/* 6.8: backing_file_mmap(), which later also asks security modules about the lower file. */
#include <linux/fs.h>
#include <linux/backing-file.h>

int probe(struct file *lower, struct vm_area_struct *vma, struct backing_file_ctx *ctx);
int probe(struct file *lower, struct vm_area_struct *vma, struct backing_file_ctx *ctx)
{
	return backing_file_mmap(lower, vma, ctx);
}
