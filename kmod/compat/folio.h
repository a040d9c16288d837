/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Before 5.16 the page cache holds pages; a folio is the head of one.  Pages
 * of the page cache that are compound (tmpfs only) have their head in every
 * slot.
 */
#ifndef PPC_COMPAT_FOLIO_H
#define PPC_COMPAT_FOLIO_H

#include <linux/mm.h>
#include <linux/pagemap.h>

struct folio {
	union {
		struct page page;
		struct {
			unsigned long compat_flags;
			struct list_head compat_lru;
			struct address_space *mapping;
			pgoff_t index;
		};
	};
};

static_assert(offsetof(struct folio, index) == offsetof(struct page, index));

static inline bool folio_try_get(struct folio *folio)
{
	return get_page_unless_zero(&folio->page);
}

static inline bool folio_test_locked(struct folio *folio)
{
	return PageLocked(&folio->page);
}

static inline bool folio_test_dirty(struct folio *folio)
{
	return PageDirty(&folio->page);
}

static inline bool folio_test_writeback(struct folio *folio)
{
	return PageWriteback(&folio->page);
}

static inline bool folio_test_uptodate(struct folio *folio)
{
	return PageUptodate(&folio->page);
}

static inline bool folio_test_mlocked(struct folio *folio)
{
	return PageMlocked(&folio->page);
}

static inline bool folio_mapped(struct folio *folio)
{
	return page_mapped(&folio->page);
}

static inline int folio_nid(const struct folio *folio)
{
	return page_to_nid(&folio->page);
}

static inline pgoff_t folio_next_index(struct folio *folio)
{
	return folio->index + compound_nr(&folio->page);
}

static inline void folio_put(struct folio *folio)
{
	put_page(&folio->page);
}

static inline int folio_wait_locked_killable(struct folio *folio)
{
	return wait_on_page_locked_killable(&folio->page);
}

/* The head, and NULL for swap entries. */
static inline struct folio *filemap_get_folio(struct address_space *mapping, pgoff_t index)
{
	struct page *page = find_get_page(mapping, index);

	return page ? (struct folio *)compound_head(page) : NULL;
}

#endif /* PPC_COMPAT_FOLIO_H */
