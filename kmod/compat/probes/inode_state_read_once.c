// SPDX-License-Identifier: GPL-2.0-only
/* 6.19: i_state is read through a helper. */
#include <linux/fs.h>

int probe(struct inode *inode);
int probe(struct inode *inode)
{
	return inode_state_read_once(inode) & I_NEW;
}
