// SPDX-License-Identifier: GPL-2.0-only
/*
 * Names: each of our dentries holds the lower dentry of the same name, and is
 * valid until the lower dentry moves, vanishes or changes its inode.
 *
 * Each of these changes the lower dentry's d_seq.  d_time keeps the d_seq at
 * which the pair was last found valid, so one comparison decides nearly always,
 * in RCU walks too.
 */
#include <linux/namei.h>
#include <linux/seqlock.h>

#include "ppc.h"

/* d_seq has 32 bits and is even at rest. */
#define PPC_SEQ_UNKNOWN		ULONG_MAX

static unsigned long ppc_lower_seq(const struct dentry *lower)
{
	return raw_read_seqcount(&lower->d_seq);
}

/* On a case-insensitive lower file system, names that differ in case are one file. */
static bool ppc_same_name(const struct dentry *lower, const struct qstr *name)
{
	const struct dentry *dir = lower->d_parent;

	if (dir->d_flags & DCACHE_OP_COMPARE)
		return !dir->d_op->d_compare(lower, lower->d_name.len, lower->d_name.name, name);
	return lower->d_name.len == name->len && !memcmp(lower->d_name.name, name->name, name->len);
}

/* The caller holds both d_locks, so names and parents are stable. */
static bool ppc_pair_matches(const struct dentry *dentry, const struct dentry *lower)
{
	const struct inode *inode = d_inode_rcu(dentry);

	if (d_unhashed(lower) || lower->d_parent != PPC_D(dentry->d_parent))
		return false;
	if (d_inode_rcu(lower) != (inode ? PPC_I(inode)->lower : NULL))
		return false;
	return ppc_same_name(lower, &dentry->d_name);
}

static bool ppc_recheck(struct dentry *dentry, struct dentry *lower)
{
	bool ok;

	spin_lock(&dentry->d_lock);
	spin_lock_nested(&lower->d_lock, DENTRY_D_LOCK_NESTED);
	ok = ppc_pair_matches(dentry, lower);
	if (ok)
		WRITE_ONCE(dentry->d_time, ppc_lower_seq(lower));
	spin_unlock(&lower->d_lock);
	spin_unlock(&dentry->d_lock);
	return ok;
}

static noinline int ppc_revalidate(struct dentry *dentry, const struct qstr *name,
				   unsigned int flags)
{
	struct dentry *lower = PPC_D(dentry);

	if (ppc_lower_seq(lower) != READ_ONCE(dentry->d_time)) {
		if (flags & LOOKUP_RCU)
			return -ECHILD;
		if (!IS_ROOT(dentry) && !ppc_recheck(dentry, lower))
			return 0;
	}
	if (lower->d_flags & DCACHE_OP_REVALIDATE)
		return ppc_lower_d_revalidate(lower, name, flags);
	return 1;
}

/* Only tail calls: anything else would make each step of a path walk save registers. */
static int ppc_d_revalidate(PPC_D_REVALIDATE_ARGS)
{
	struct dentry *lower = PPC_D(dentry);

	if (unlikely(!lower))
		return 0;
	if (likely(ppc_lower_seq(lower) == READ_ONCE(dentry->d_time) &&
		   !(lower->d_flags & DCACHE_OP_REVALIDATE)))
		return 1;
	return ppc_revalidate(dentry, PPC_D_REVALIDATE_NAME, flags);
}

static void ppc_d_release(struct dentry *dentry)
{
	dput(PPC_D(dentry));
}

/*
 * Probes on a file and integrity checks of its content need the inode that has
 * the data.  Before 6.7 a lower file also carries the user's path; NFS and its
 * relatives get their own dentry from here through file_dentry().
 */
static struct dentry *ppc_d_real(struct dentry *dentry, PPC_D_REAL_WANT want)
{
	if (!PPC_D(dentry) || ppc_d_real_is_upper(dentry, want))
		return dentry;
	return d_real(PPC_D(dentry), want);
}

const struct dentry_operations ppc_dentry_ops = {
	.d_revalidate	= ppc_d_revalidate,
	.d_real		= ppc_d_real,
	.d_release	= ppc_d_release,
};

/*
 * The kernel checks search permission by the lower mount, which may be wrong
 * for a caller that came through an id-mapped mount of ours.  The VFS has
 * checked with the right mapping, and no server decides where id-mapped mounts
 * are allowed, so a refusal here can only come from the mapping.
 */
static struct dentry *ppc_lookup_lower(struct ppc_sb *sbi, struct qstr *name, struct dentry *dir)
{
	struct ppc_idmap *idmap = ppc_idmap_of(sbi->lower_mnt);
	struct dentry *lower = ppc_lookup_one(idmap, name, dir);
	const struct cred *old;

	if (PPC_LOOKUP_ASKS && lower == ERR_PTR(-EACCES) && ppc_may_idmap(sbi->sb)) {
		old = override_creds(sbi->cred);
		lower = ppc_lookup_one(idmap, name, dir);
		revert_creds(old);
	}
	return lower;
}

/**
 * ppc_lookup - ->lookup of directories
 * @dir: ours
 * @dentry: new, unhashed
 * @flags: ignored; creation is stopped by the VFS (read-only)
 *
 * Context: may sleep; i_rwsem of @dir held at least shared, so
 * dentry->d_parent is stable.
 * Return: the result of d_splice_alias()
 */
struct dentry *ppc_lookup(struct inode *dir, struct dentry *dentry, unsigned int flags)
{
	struct dentry *lower_dir = PPC_D(dentry->d_parent);
	struct qstr name = QSTR_INIT(dentry->d_name.name, dentry->d_name.len);
	struct inode *lower_inode, *inode = NULL;
	struct dentry *lower, *moved;

	lower = ppc_lookup_lower(PPC_SB(dir->i_sb), &name, lower_dir);
	if (IS_ERR(lower))
		return lower;
	dentry->d_fsdata = lower;
	dentry->d_time = PPC_SEQ_UNKNOWN;

	lower_inode = d_inode(lower);
	if (lower_inode) {
		inode = ppc_iget(dir->i_sb, lower_inode);
		if (IS_ERR(inode))
			return ERR_CAST(inode);
	}
	moved = d_splice_alias(inode, dentry);
	/* A directory that moved here from another name was validated there, not here. */
	if (!IS_ERR_OR_NULL(moved))
		WRITE_ONCE(moved->d_time, PPC_SEQ_UNKNOWN);
	return moved;
}
