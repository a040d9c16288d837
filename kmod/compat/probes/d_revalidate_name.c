// SPDX-License-Identifier: GPL-2.0-only
/* 6.14: ->d_revalidate() gets the parent inode and the name. */
#include <linux/fs.h>
#include <linux/dcache.h>

int probe(struct inode *dir, const struct qstr *name, struct dentry *dentry, unsigned int flags);
int probe(struct inode *dir, const struct qstr *name, struct dentry *dentry, unsigned int flags)
{
	return dentry->d_op->d_revalidate(dir, name, dentry, flags);
}
