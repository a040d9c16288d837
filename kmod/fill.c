// SPDX-License-Identifier: GPL-2.0-only
/*
 * Fills a mapping with the largest aligned folios that the lower file system
 * takes: fewer to fault in, to keep on lists, and to evict.  The kernel's
 * page_cache_ra_order() is not exported and begins with small folios; the
 * exported read-ahead reads single pages.  The rules are those of read-ahead:
 * the invalidate lock keeps truncation away, a failed allocation ends it, and
 * the file system gets locked folios in file order.
 */
#include <linux/blkdev.h>
#include <linux/log2.h>
#include <linux/pagemap.h>
#include <linux/sched/mm.h>

#include "ppc.h"

#if PPC_FILLS_FOLIOS

/* The largest order of an aligned folio that begins at @index and ends before @end. */
static unsigned int ppc_order_at(struct address_space *mapping, pgoff_t index, pgoff_t end)
{
	unsigned int order = min_t(unsigned int, ppc_max_order(mapping), ilog2(end - index));

	if (index)
		order = min_t(unsigned int, order, __ffs(index));
	return max(ppc_usable_order(order), ppc_min_order(mapping));
}

/* Without @compact a large folio is taken if there is a free one; memory is not compacted. */
static int ppc_add_folio(struct readahead_control *ractl, pgoff_t index, unsigned int order,
			 bool compact)
{
	gfp_t gfp = readahead_gfp_mask(ractl->mapping);
	struct folio *folio;
	int err;

	if (!compact && order > ppc_min_order(ractl->mapping))
		folio = ppc_alloc_folio(gfp & ~__GFP_DIRECT_RECLAIM, order);
	else
		folio = ppc_alloc_folio(gfp, order);
	if (!folio)
		return -ENOMEM;
	err = filemap_add_folio(ractl->mapping, folio, index, gfp);
	if (err) {
		folio_put(folio);
		return err;
	}
	ractl->_nr_pages += 1U << order;
	return 0;
}

/*
 * Adds folios from @index on, until one is present already or memory is short;
 * smaller ones when large ones run out.  Returns where it stopped.
 */
static pgoff_t ppc_add_folios(struct readahead_control *ractl, pgoff_t index, pgoff_t end,
			      bool compact, int *err)
{
	unsigned int order, least = ppc_min_order(ractl->mapping);

	*err = 0;
	while (index < end) {
		order = ppc_order_at(ractl->mapping, index, end);
		*err = ppc_add_folio(ractl, index, order, compact);
		while (*err == -ENOMEM && order > least) {
			order = ppc_usable_order(order - 1);
			*err = ppc_add_folio(ractl, index, order, compact);
		}
		if (*err)
			break;
		index += 1UL << order;
	}
	return index;
}

static void ppc_submit_folios(struct readahead_control *ractl)
{
	const struct address_space_operations *ops = ractl->mapping->a_ops;
	struct folio *folio;

	if (!readahead_count(ractl))
		return;
	if (ops->readahead)
		ops->readahead(ractl);
	while ((folio = readahead_folio(ractl))) {
		/* folios that the file system did not take are read on demand */
		if (ops->readahead)
			folio_unlock(folio);
		else
			ppc_read_folio(ops, ractl->file, folio);
	}
}

/**
 * ppc_fills_large - whether ppc_fill() can load a mapping
 * @mapping: of the lower inode
 */
bool ppc_fills_large(struct address_space *mapping)
{
	return mapping_large_folio_support(mapping) && mapping->a_ops->readahead;
}

/**
 * ppc_fill - start reading the absent pages of a range
 * @file: lower file; its read-ahead state is handed to the file system
 * @first: first page
 * @nr: number of pages, clamped to the file
 * @compact: compact memory for large folios; not while an application waits
 *
 * Context: may sleep for memory and requests; no lock of the mapping held.
 */
void ppc_fill(struct file *file, pgoff_t first, unsigned long nr, bool compact)
{
	struct address_space *mapping = file->f_mapping;
	unsigned int nofs = memalloc_nofs_save();
	unsigned long align = 1UL << ppc_min_order(mapping);
	pgoff_t at, end, stop, clash = ULONG_MAX;
	struct blk_plug plug;
	unsigned long n;
	int err = 0;

	filemap_invalidate_lock_shared(mapping);
	stop = min_t(pgoff_t, first + nr, DIV_ROUND_UP(i_size_read(mapping->host), PAGE_SIZE));
	at = round_down(first, align);
	blk_start_plug(&plug);
	while (at < stop && err != -ENOMEM) {
		DEFINE_READAHEAD(ractl, file, &file->f_ra, mapping, at);

		n = ppc_next_absent(mapping, &at, stop - 1);
		if (!n)
			break;
		end = at + n;
		/* while a folio is removed, its first pages may still seem present */
		at = round_down(at, align);
		ractl._index = at;
		at = ppc_add_folios(&ractl, at, end, compact, &err);
		ppc_submit_folios(&ractl);
		/* another task added it first: look again, once */
		if (err == -EEXIST) {
			if (at == clash)
				at += align;
			else
				clash = at;
		} else if (err) {
			break;
		}
	}
	blk_finish_plug(&plug);
	filemap_invalidate_unlock_shared(mapping);
	memalloc_nofs_restore(nofs);
}

/**
 * ppc_drop_failed - drop a large folio that could not be read
 * @mapping: of the lower inode
 * @index: of a page in it
 *
 * The lower file system reads a folio as a whole, so one bad sector fails all
 * of its pages.  Smaller folios confine the error: after the drop, the next try
 * of each waiting reader gets its own page.
 *
 * Context: may sleep; mmap_lock or the VMA lock may be held, no folio's.
 * Return: whether to try again, once
 */
bool ppc_drop_failed(struct address_space *mapping, pgoff_t index)
{
	struct folio *folio;
	bool again = false;

	if (!ppc_fills_large(mapping) ||
	    index >= DIV_ROUND_UP(i_size_read(mapping->host), PAGE_SIZE))
		return false;
	folio = filemap_get_folio(mapping, index);
	if (ppc_no_folio(folio))
		return true;
	if (folio_order(folio) <= ppc_min_order(mapping)) {
		/* another task reads the page again, or has read it */
		again = folio_test_locked(folio) || folio_test_uptodate(folio);
	} else if (!folio_lock_killable(folio)) {
		again = folio->mapping != mapping || folio_test_uptodate(folio);
		if (!again && !folio_test_dirty(folio) && !folio_test_writeback(folio)) {
			ppc_remove_failed(mapping, folio);
			again = true;
		}
		folio_unlock(folio);
	}
	folio_put(folio);
	return again;
}

#endif
