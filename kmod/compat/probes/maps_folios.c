// SPDX-License-Identifier: GPL-2.0-only
/*
 * 6.18: faults map whole large folios.  It is a matter of what filemap.c and
 * memory.c do, nothing in the headers shows it, so here the version tells.  Where
 * a distribution has it in an older kernel, positions by faults are told less
 * often than each stride; where the version is newer and it is not so, more often.
 */
#include <linux/version.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 18, 0)
#error "older than 6.18"
#endif

int probe(void);
int probe(void)
{
	return 0;
}
