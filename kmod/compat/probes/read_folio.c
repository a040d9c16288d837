// SPDX-License-Identifier: GPL-2.0-only
/* 5.19: ->readpage() became ->read_folio(). */
#include <linux/fs.h>

int probe(const struct address_space_operations *ops);
int probe(const struct address_space_operations *ops)
{
	return ops->read_folio ? 0 : -1;
}
