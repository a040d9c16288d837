// SPDX-License-Identifier: GPL-2.0-only
/* 5.10: the oldest kernel supported is the first with this macro. */
#include <linux/pagemap.h>

#ifndef DEFINE_READAHEAD
#error "older than 5.10"
#endif

int probe(struct address_space *mapping);
int probe(struct address_space *mapping)
{
	return mapping->a_ops->readahead ? 1 : 0;
}
