// SPDX-License-Identifier: GPL-2.0-only
/* 6.0: FMODE_CAN_ODIRECT. */
#include <linux/fs.h>

int probe(struct file *file);
int probe(struct file *file)
{
	return (file->f_mode & FMODE_CAN_ODIRECT) != 0;
}
