// SPDX-License-Identifier: GPL-2.0-only
/*
 * 5.15: the read-ahead control carries the file_ra_state, and
 * page_cache_ra_unbounded() takes the mapping's invalidate lock itself.  One
 * commit brought both, so one probe stands for both.
 */
#include <linux/fs.h>
#include <linux/pagemap.h>

void probe(struct file *file, pgoff_t index, unsigned long nr);
void probe(struct file *file, pgoff_t index, unsigned long nr)
{
	DEFINE_READAHEAD(ractl, file, &file->f_ra, file->f_mapping, index);

	filemap_invalidate_lock_shared(file->f_mapping);
	filemap_invalidate_unlock_shared(file->f_mapping);
	page_cache_ra_unbounded(&ractl, nr, 0);
}
