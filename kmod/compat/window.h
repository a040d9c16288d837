/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Demand windows before 5.15.  That of a read goes through the lower file
 * system's WILLNEED, which takes the locks it needs; that of a fault is the
 * read-around of the lower fault, around the page instead of aligned.
 */
#ifndef PPC_COMPAT_WINDOW_H
#define PPC_COMPAT_WINDOW_H

#include <linux/backing-dev-defs.h>
#include <linux/blkdev.h>
#include <linux/fadvise.h>
#include <linux/fs.h>

static inline void ppc_start_window(struct file *file, pgoff_t index, unsigned long nr)
{
	/* limit of one call */
	unsigned long most = max3(file_inode(file)->i_sb->s_bdi->io_pages,
				  (unsigned long)file->f_ra.ra_pages, 1UL);
	struct blk_plug plug;
	unsigned long step;

	blk_start_plug(&plug);
	for (; nr; nr -= step, index += step) {
		step = min(nr, most);
		vfs_fadvise(file, (loff_t)index << PAGE_SHIFT, (loff_t)step << PAGE_SHIFT,
			    POSIX_FADV_WILLNEED);
	}
	blk_finish_plug(&plug);
}

/*
 * 0 restores the device's own window, doubled for POSIX_FADV_SEQUENTIAL.
 * Caller holds ppc_open_list.lock, which protects *ours.
 */
static inline void ppc_set_fault_window(struct file *file, unsigned long pages, bool sequential,
					bool *ours)
{
	unsigned long native = file_inode(file)->i_sb->s_bdi->ra_pages;

	if (pages)
		WRITE_ONCE(file->f_ra.ra_pages, pages);
	else if (*ours)
		WRITE_ONCE(file->f_ra.ra_pages, sequential ? 2 * native : native);
	*ours = pages;
}

#endif /* PPC_COMPAT_WINDOW_H */
