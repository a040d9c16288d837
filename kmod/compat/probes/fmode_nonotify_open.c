// SPDX-License-Identifier: GPL-2.0-only
/* Before 6.14 __FMODE_NONOTIFY is a bit of the open flags. */
#include <linux/fs.h>

int probe(void);
int probe(void)
{
	return OPEN_FMODE(__FMODE_NONOTIFY) & FMODE_NONOTIFY;
}
