// SPDX-License-Identifier: GPL-2.0-only
/* 7.0, or earlier: filemap_alloc_folio() takes a memory policy. */
#include <linux/pagemap.h>

int probe(struct address_space *mapping, pgoff_t index);
int probe(struct address_space *mapping, pgoff_t index)
{
	struct folio *folio = filemap_alloc_folio(readahead_gfp_mask(mapping), MAX_PAGECACHE_ORDER,
						  NULL);

	if (!mapping_large_folio_support(mapping))
		return 0;
	return filemap_add_folio(mapping, folio, index, readahead_gfp_mask(mapping));
}
