// SPDX-License-Identifier: GPL-2.0-only
/* 6.6, and stable releases of older kernels: inode_get_ctime(). */
#include <linux/fs.h>

struct timespec64 probe(struct inode *inode);
struct timespec64 probe(struct inode *inode)
{
	return inode_get_ctime(inode);
}
