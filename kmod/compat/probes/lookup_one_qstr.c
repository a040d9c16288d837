// SPDX-License-Identifier: GPL-2.0-only
/* 6.16: lookup_one_unlocked() takes a qstr. */
#include <linux/fs.h>
#include <linux/namei.h>
#include <linux/mount.h>

struct dentry *probe(struct vfsmount *mnt, struct qstr *name, struct dentry *base);
struct dentry *probe(struct vfsmount *mnt, struct qstr *name, struct dentry *base)
{
	return lookup_one_unlocked(mnt_idmap(mnt), name, base);
}
