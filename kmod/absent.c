// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tells which pages of a mapping are absent from the page cache, and whether
 * the mapping can be loaded ahead.  Knows neither open files nor events.
 */
#include <linux/pagemap.h>
#include <linux/xarray.h>

#include "ppc.h"

/* Nodes or pages to look at under one RCU read lock. */
#define PPC_STEPS_AT_ONCE	4096

static bool ppc_entry_present(const void *entry)
{
	return entry && !xa_is_value(entry);
}

/*
 * State of the page at xas->xa_index, and in *next the first index for which
 * the answer may differ.  Whole nodes of 64 present pages are skipped by their
 * counters, so a cached MiB costs four steps.
 */
static bool ppc_next_entry(struct xa_state *xas, pgoff_t *next)
{
	void *entry = xas_load(xas);
	struct xa_node *node = xas->xa_node;
	pgoff_t index = xas->xa_index;

	if (!node || xas_not_node(node)) {
		/* no tree, a single entry at index 0, or an index behind the tree */
		*next = ppc_entry_present(entry) ? index + 1 : ULONG_MAX;
		return ppc_entry_present(entry);
	}
	if (node->shift)
		*next = round_down(index, 1UL << node->shift) + (1UL << node->shift);
	else if (node->count == XA_CHUNK_SIZE && !node->nr_values)
		*next = round_down(index, XA_CHUNK_SIZE) + XA_CHUNK_SIZE;
	else
		*next = index + 1;
	if (!*next)
		*next = ULONG_MAX;
	return ppc_entry_present(entry);
}

/**
 * ppc_next_absent - find the next extent of absent pages
 * @mapping: of the lower inode
 * @index: where to start; set to the start of the extent
 * @last: last page to look at
 *
 * Pages that are being read count as present: another task is reading them.
 *
 * Context: may sleep.
 * Return: number of absent pages from *@index on, 0 when there is none
 */
unsigned long ppc_next_absent(struct address_space *mapping, pgoff_t *index, pgoff_t last)
{
	XA_STATE(xas, &mapping->i_pages, *index);
	pgoff_t at = *index, start = 0, next;
	unsigned int steps = 0;
	bool found = false;

	rcu_read_lock();
	while (at <= last) {
		if (unlikely(++steps > PPC_STEPS_AT_ONCE)) {
			steps = 0;
			rcu_read_unlock();
			cond_resched();
			rcu_read_lock();
		}
		xas_set(&xas, at);
		if (ppc_next_entry(&xas, &next)) {
			if (found)
				break;
		} else if (!found) {
			found = true;
			start = at;
		}
		if (next > last) {
			at = last + 1;
			break;
		}
		at = next;
	}
	rcu_read_unlock();
	if (!found)
		return 0;
	*index = start;
	return at - start;
}

/**
 * ppc_count_absent - number of absent pages in [first, last]
 * @mapping: of the lower inode
 * @first: first page
 * @last: last page
 *
 * Context: may sleep.
 */
unsigned long ppc_count_absent(struct address_space *mapping, pgoff_t first, pgoff_t last)
{
	unsigned long n, sum = 0;

	while (first <= last) {
		n = ppc_next_absent(mapping, &first, last);
		if (!n)
			break;
		sum += n;
		first += n;
	}
	return sum;
}

/**
 * ppc_can_readahead - whether pages of a mapping can be loaded ahead
 * @mapping: of the lower inode
 *
 * Not on tmpfs and ramfs (nothing to read from) nor on DAX (no page cache).
 */
bool ppc_can_readahead(struct address_space *mapping)
{
	const struct address_space_operations *ops = mapping->a_ops;

	return ops && (ops->readahead || ppc_reads_folios(ops)) && !mapping_unevictable(mapping) &&
	       !IS_DAX(mapping->host);
}

/* Whether a page is present or being read. */
bool ppc_is_present(struct address_space *mapping, pgoff_t index)
{
	return ppc_entry_present(xa_load(&mapping->i_pages, index));
}
