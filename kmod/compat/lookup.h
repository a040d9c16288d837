/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Looking up a name in a lower directory.  The VFS has checked the caller's
 * search permission on our directory.  From 6.16 on the helper here does not
 * check again.  Before, it checks the lower directory, by the id mapping of the
 * lower mount, which may not be that of the caller's mount.
 */
#ifndef PPC_COMPAT_LOOKUP_H
#define PPC_COMPAT_LOOKUP_H

#include <linux/namei.h>

#ifdef PPC_HAVE_LOOKUP_NOPERM
#define PPC_LOOKUP_ASKS	0
static inline struct dentry *ppc_lookup_one(struct ppc_idmap *idmap, struct qstr *name,
					    struct dentry *dir)
{
	return lookup_noperm_unlocked(name, dir);
}
#else
#define PPC_LOOKUP_ASKS	1
/* 5.15: takes the mapping. */
static inline struct dentry *ppc_lookup_one(struct ppc_idmap *idmap, struct qstr *name,
					    struct dentry *dir)
{
#ifdef PPC_HAVE_LOOKUP_ONE
	return lookup_one_unlocked(idmap, name->name, dir, name->len);
#else
	return lookup_one_len_unlocked(name->name, dir, name->len);
#endif
}
#endif

#endif /* PPC_COMPAT_LOOKUP_H */
