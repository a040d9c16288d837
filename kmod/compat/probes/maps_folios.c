// SPDX-License-Identifier: GPL-2.0-only
/*
 * 6.18: faults map whole large folios.  No header shows this behaviour of
 * filemap.c and memory.c, so the version decides.  If a distribution has
 * backported it to an older kernel, positions by faults are reported less often
 * than each stride; if a newer kernel lacks it, more often.
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
