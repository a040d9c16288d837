// SPDX-License-Identifier: GPL-2.0-only
/*
 * RESIDENT: which pages of a range are in the page cache, and on which NUMA
 * node.
 */
#include <linux/pagemap.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/xarray.h>

#include "ppc.h"

/* Pages walked under RCU and copied out together: a bitmap of 4 KiB. */
#define PPC_RESIDENT_CHUNK_PAGES	32768UL

static void ppc_count_folio(struct ppc_resident *req, struct folio *folio, unsigned long nr)
{
	u64 bytes = (u64)nr << PAGE_SHIFT;
	int node = folio_nid(folio);

	req->resident += bytes;
	if (folio_test_dirty(folio) || folio_test_writeback(folio))
		req->dirty += bytes;
	if (folio_mapped(folio))
		req->mapped += bytes;
	if (node >= 0 && node < PPC_MAX_NODES)
		req->node[node] += bytes;
}

static void ppc_resident_chunk(struct address_space *mapping, pgoff_t first, pgoff_t last,
			       struct ppc_resident *req, unsigned long *bitmap)
{
	XA_STATE(xas, &mapping->i_pages, first);
	struct folio *folio;

	rcu_read_lock();
	xas_for_each(&xas, folio, last) {
		pgoff_t index = max(xas.xa_index, first), next;
		unsigned long nr;

		if (xas_retry(&xas, folio) || xa_is_value(folio) || !ppc_folio_pin(&xas, folio))
			continue;
		if (folio_test_uptodate(folio)) {
			next = folio_next_index(folio);
			nr = next > index ? min(next, last + 1) - index : 1;
			ppc_count_folio(req, folio, nr);
			if (bitmap)
				bitmap_set(bitmap, index - first, nr);
		}
		folio_put(folio);
	}
	rcu_read_unlock();
}

/* Makes the words little-endian, so that their bytes are in order. */
static void ppc_order_bitmap(unsigned long *bitmap, unsigned long nr)
{
#ifdef __BIG_ENDIAN
	unsigned long i;

	for (i = 0; i < BITS_TO_LONGS(nr); i++)
		bitmap[i] = BITS_PER_LONG == 64 ? swab64(bitmap[i]) : swab32(bitmap[i]);
#endif
}

static int ppc_copy_bitmap(const struct ppc_resident *req, unsigned long *bitmap,
			   unsigned long done, unsigned long nr)
{
	u8 __user *to = u64_to_user_ptr(req->bitmap);

	/* a chunk is a multiple of 8 pages */
	ppc_order_bitmap(bitmap, nr);
	if (copy_to_user(to + done / 8, bitmap, DIV_ROUND_UP(nr, 8)))
		return -EFAULT;
	return 0;
}

/**
 * ppc_resident_range - PPC_IOC_RESIDENT
 * @sbi: mount
 * @inode: ours, regular, referenced
 * @req: offset and length were checked
 *
 * Context: ioctl.
 * Return: 0, -EINVAL bitmap too small, -EFAULT, -EINTR, -ENODEV unmount
 */
int ppc_resident_range(struct ppc_sb *sbi, struct inode *inode, struct ppc_resident *req)
{
	struct address_space *mapping = PPC_I(inode)->mapping;
	u64 size = i_size_read(mapping->host), end = req->offset + req->length;
	pgoff_t first = req->offset >> PAGE_SHIFT, stop, at;
	unsigned long *bitmap = NULL;
	int err = 0;

	req->resident = 0;
	req->dirty = 0;
	req->mapped = 0;
	memset(req->node, 0, sizeof(req->node));
	if (!req->length || end > size)
		end = size;
	if (end - min(end, req->offset) > 1ULL << 40)
		return -EINVAL;
	stop = DIV_ROUND_UP(end, PAGE_SIZE);
	if (first >= stop)
		return 0;
	if (req->bitmap) {
		if (req->bitmap_bytes < DIV_ROUND_UP(stop - first, 8))
			return -EINVAL;
		bitmap = bitmap_alloc(PPC_RESIDENT_CHUNK_PAGES, GFP_KERNEL);
		if (!bitmap)
			return -ENOMEM;
	}
	for (at = first; at < stop && !err; at += PPC_RESIDENT_CHUNK_PAGES) {
		pgoff_t last = min(at + PPC_RESIDENT_CHUNK_PAGES, stop) - 1;

		if (bitmap)
			bitmap_zero(bitmap, PPC_RESIDENT_CHUNK_PAGES);
		ppc_resident_chunk(mapping, at, last, req, bitmap);
		if (bitmap)
			err = ppc_copy_bitmap(req, bitmap, at - first, last - at + 1);
		if (!err && fatal_signal_pending(current))
			err = -EINTR;
		if (!err && ppc_dev_dying(sbi))
			err = -ENODEV;
		cond_resched();
	}
	bitmap_free(bitmap);
	return err;
}
