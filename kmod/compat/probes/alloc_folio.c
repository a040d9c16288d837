// SPDX-License-Identifier: GPL-2.0-only
/* 5.16 exports what read-ahead uses to fill a mapping with large folios. */
#include <linux/pagemap.h>

int probe(struct address_space *mapping, pgoff_t index);
int probe(struct address_space *mapping, pgoff_t index)
{
	struct folio *folio = filemap_alloc_folio(readahead_gfp_mask(mapping), MAX_PAGECACHE_ORDER);

	if (!mapping_large_folio_support(mapping))
		return 0;
	return filemap_add_folio(mapping, folio, index, readahead_gfp_mask(mapping));
}
