// SPDX-License-Identifier: GPL-2.0-only
/* 5.16: folios in the page cache. */
#include <linux/fs.h>
#include <linux/pagemap.h>

int probe(struct address_space *mapping, pgoff_t index);
int probe(struct address_space *mapping, pgoff_t index)
{
	struct folio *folio = filemap_get_folio(mapping, index);

	return folio_wait_locked_killable(folio) + folio_nr_pages(folio);
}
