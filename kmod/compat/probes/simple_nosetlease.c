// SPDX-License-Identifier: GPL-2.0-only
/* 7.0: without ->setlease() leases are refused; before, they were allowed. */
#include <linux/fs.h>

void *probe(void);
void *probe(void)
{
	return simple_nosetlease;
}
