/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Selects how a mapping is filled.  Where the kernel exports what fill.c needs,
 * fill.c does it, under the invalidate lock.  On 5.15 the exported read-ahead
 * takes that lock.  Older file systems have locks of their own, which their
 * fadvise takes; fadvise must not be called in a fault (XFS takes its IOLOCK),
 * so there the lower read-around is made as large as the window.
 */
#ifndef PPC_COMPAT_FILL_H
#define PPC_COMPAT_FILL_H

#include <linux/fs.h>
#include <linux/pagemap.h>

/* PPC_SINGLE_PAGES: a build without large folios, to measure them against. */
#if (defined(PPC_HAVE_ALLOC_FOLIO) || defined(PPC_HAVE_ALLOC_FOLIO_POLICY)) && \
	!defined(PPC_SINGLE_PAGES)
#define PPC_FILLS_FOLIOS	1
bool ppc_fills_large(struct address_space *mapping);
void ppc_fill(struct file *file, pgoff_t first, unsigned long nr, bool compact);
bool ppc_drop_failed(struct address_space *mapping, pgoff_t index);

/* 6.8. */
static inline void ppc_remove_failed(struct address_space *mapping, struct folio *folio)
{
#ifdef PPC_HAVE_ERROR_REMOVE_FOLIO
	generic_error_remove_folio(mapping, folio);
#else
	generic_error_remove_page(mapping, &folio->page);
#endif
}

static inline struct folio *ppc_alloc_folio(gfp_t gfp, unsigned int order)
{
#ifdef PPC_HAVE_ALLOC_FOLIO_POLICY
	return filemap_alloc_folio(gfp, order, NULL);
#else
	return filemap_alloc_folio(gfp, order);
#endif
}

/* 6.12: a mapping's largest and smallest folio order. */
#ifdef PPC_HAVE_MAX_FOLIO_ORDER
static inline unsigned int ppc_max_order(struct address_space *mapping)
{
	return mapping_max_folio_order(mapping);
}

static inline unsigned int ppc_min_order(struct address_space *mapping)
{
	return mapping_min_folio_order(mapping);
}

static inline unsigned int ppc_usable_order(unsigned int order)
{
	return order;
}
#else
static inline unsigned int ppc_max_order(struct address_space *mapping)
{
	return mapping_large_folio_support(mapping) ? MAX_PAGECACHE_ORDER : 0;
}

static inline unsigned int ppc_min_order(struct address_space *mapping)
{
	return 0;
}

/*
 * Before 6.9 there are no folios of two pages: splitting a folio, as truncation
 * does, needs the list head in its third page.
 */
static inline unsigned int ppc_usable_order(unsigned int order)
{
	return order == 1 ? 0 : order;
}
#endif
#else
#define PPC_FILLS_FOLIOS	0
static inline bool ppc_fills_large(struct address_space *mapping)
{
	return false;
}

static inline void ppc_fill(struct file *file, pgoff_t first, unsigned long nr, bool compact)
{
}

static inline bool ppc_drop_failed(struct address_space *mapping, pgoff_t index)
{
	return false;
}
#endif

/* Starts reading [index, index + nr) of a file: the demand window. */
#if PPC_FILLS_FOLIOS || defined(PPC_HAVE_READAHEAD_RA)
#define PPC_FAULT_WINDOW	1
static inline void ppc_start_window(struct file *file, pgoff_t index, unsigned long nr)
{
#if PPC_FILLS_FOLIOS
	ppc_fill(file, index, nr, false);
#else
	DEFINE_READAHEAD(ractl, file, &file->f_ra, file->f_mapping, index);

	page_cache_ra_unbounded(&ractl, nr, 0);
#endif
}

static inline void ppc_set_fault_window(struct file *file, unsigned long pages, bool sequential,
					bool *ours)
{
}
#else
#define PPC_FAULT_WINDOW	0
#include "window.h"
#endif

#endif /* PPC_COMPAT_FILL_H */
