// SPDX-License-Identifier: GPL-2.0-only
/* 6.17: struct fileattr became struct file_kattr. */
#include <linux/fs.h>
#include <linux/fileattr.h>

int probe(struct dentry *dentry, struct file_kattr *attr);
int probe(struct dentry *dentry, struct file_kattr *attr)
{
	return vfs_fileattr_get(dentry, attr);
}
