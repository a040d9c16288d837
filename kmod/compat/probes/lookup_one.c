// SPDX-License-Identifier: GPL-2.0-only
/* 5.15: lookup_one_unlocked() with a plain name. */
#include <linux/fs.h>
#include <linux/namei.h>
#include <linux/mount.h>

struct dentry *probe(struct vfsmount *mnt, const char *name, struct dentry *base);
struct dentry *probe(struct vfsmount *mnt, const char *name, struct dentry *base)
{
	return lookup_one_unlocked(NULL, name, base, 3);
}
