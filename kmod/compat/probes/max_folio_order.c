// SPDX-License-Identifier: GPL-2.0-only
/* 6.12: a mapping has a largest and a smallest folio order. */
#include <linux/pagemap.h>

unsigned int probe(struct address_space *mapping);
unsigned int probe(struct address_space *mapping)
{
	return mapping_max_folio_order(mapping) - mapping_min_folio_order(mapping);
}
