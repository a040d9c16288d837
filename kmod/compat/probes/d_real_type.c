// SPDX-License-Identifier: GPL-2.0-only
/* 6.9: ->d_real() gets the wanted kind of inode, not an inode. */
#include <linux/dcache.h>

struct dentry *probe(struct dentry *dentry);
struct dentry *probe(struct dentry *dentry)
{
	return dentry->d_op->d_real(dentry, D_REAL_DATA);
}
