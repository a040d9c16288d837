// SPDX-License-Identifier: GPL-2.0-only
/* 5.13: inode operations get and set inode flags. */
#include <linux/fs.h>
#include <linux/fileattr.h>

int probe(struct dentry *dentry, struct fileattr *attr);
int probe(struct dentry *dentry, struct fileattr *attr)
{
	return vfs_fileattr_get(dentry, attr);
}
