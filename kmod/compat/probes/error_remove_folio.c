// SPDX-License-Identifier: GPL-2.0-only
/* 6.8: generic_error_remove_page() took a page. */
#include <linux/mm.h>

int probe(struct address_space *mapping, struct folio *folio);
int probe(struct address_space *mapping, struct folio *folio)
{
	return generic_error_remove_folio(mapping, folio);
}
