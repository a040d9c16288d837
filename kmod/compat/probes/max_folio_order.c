// SPDX-License-Identifier: GPL-2.0-only
/* 6.12: a mapping says how large its folios may be, and must be. */
#include <linux/pagemap.h>

unsigned int probe(struct address_space *mapping);
unsigned int probe(struct address_space *mapping)
{
	return mapping_max_folio_order(mapping) - mapping_min_folio_order(mapping);
}
