// SPDX-License-Identifier: GPL-2.0-only
/*
 * 6.18: faults map whole large folios.  This bit came with it, for the sake of
 * mlock, which must tell folios that are mapped whole from others.
 */
#include <linux/rmap.h>

unsigned int probe(void);
unsigned int probe(void)
{
	return PVMW_PGTABLE_CROSSED;
}
