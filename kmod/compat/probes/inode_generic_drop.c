// SPDX-License-Identifier: GPL-2.0-only
/* 6.18: generic_drop_inode() was renamed. */
#include <linux/fs.h>

int probe(struct inode *inode);
int probe(struct inode *inode)
{
	return inode_generic_drop(inode);
}
