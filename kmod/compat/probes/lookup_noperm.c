// SPDX-License-Identifier: GPL-2.0-only
/* 6.16: lookup_noperm_unlocked() with a qstr. */
#include <linux/fs.h>
#include <linux/namei.h>

struct dentry *probe(struct qstr *name, struct dentry *base);
struct dentry *probe(struct qstr *name, struct dentry *base)
{
	return lookup_noperm_unlocked(name, base);
}
