// SPDX-License-Identifier: GPL-2.0-only
/* Must compile: shows that probing works. */
#include <linux/fs.h>

int probe(struct inode *inode);
int probe(struct inode *inode)
{
	return inode->i_mode;
}
