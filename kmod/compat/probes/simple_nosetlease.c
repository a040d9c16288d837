// SPDX-License-Identifier: GPL-2.0-only
/* 7.0: no ->setlease() refuses leases; before, it allowed them. */
#include <linux/fs.h>

void *probe(void);
void *probe(void)
{
	return simple_nosetlease;
}
