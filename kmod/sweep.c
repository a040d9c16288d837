// SPDX-License-Identifier: GPL-2.0-only
/*
 * The sweeper: our cached names hold lower inodes, so without it `rm` of a
 * model below (or a rename over it) would free no space until memory is short.
 * Every 2 s it drops the names of files that are deleted below and not open.
 *
 * A mount that was idle for a while drops all names, so nothing that could be
 * deleted is held, and is not swept until the next look-up of a name.  A mount
 * with an open file, a working directory, or an attached policy, whose ids must
 * stay, is swept every 8 s while idle.
 */
#include <linux/dcache.h>
#include <linux/magic.h>

#include "ppc.h"

#define PPC_SWEEP_PERIOD	(2 * HZ)
#define PPC_SWEEP_IDLE		(8 * HZ)
/* Periods without a new name or a closed file that make a mount idle. */
#define PPC_IDLE_SWEEPS		15
#define PPC_SWEEP_BATCH		1024
/* A sweep over many inodes is done in turns of at most this time. */
#define PPC_SWEEP_TURN_NS	(2 * NSEC_PER_MSEC)
#define PPC_SWEEP_TURN		(HZ / 50)

/*
 * An NFS client that removes a file in use, as ours are, renames it and removes
 * that name after the last user.
 */
static struct dentry *ppc_renamed_alias(struct inode *inode)
{
	struct dentry *alias;

	for_each_alias(alias, inode) {
		struct dentry *lower = PPC_D(alias);

		if (lower && ppc_bottom_dentry(lower)->d_flags & DCACHE_NFSFS_RENAMED &&
		    !d_unhashed(alias))
			return alias;
	}
	return NULL;
}

static bool ppc_is_renamed(struct inode *inode)
{
	bool renamed;

	spin_lock(&inode->i_lock);
	/* after I_FREEING the list head may be overwritten by the RCU head */
	renamed = !(inode_state_read_once(inode) & I_FREEING) && ppc_renamed_alias(inode);
	spin_unlock(&inode->i_lock);
	return renamed;
}

static bool ppc_is_orphan(struct ppc_inode *pi)
{
	const struct inode *bottom = ppc_bottom(pi->lower);

	if (atomic_read(&pi->nr_open))
		return false;
	if (!READ_ONCE(bottom->i_nlink))
		return true;
	return bottom->i_sb->s_magic == NFS_SUPER_MAGIC && ppc_is_renamed(&pi->vfs_inode);
}

static void ppc_drop_renamed(struct inode *inode)
{
	struct dentry *alias;

	spin_lock(&inode->i_lock);
	alias = ppc_renamed_alias(inode);
	dget(alias);
	spin_unlock(&inode->i_lock);
	/* mounts on it go too, as after a look-up that finds the name gone */
	if (alias)
		d_invalidate(alias);
	dput(alias);
}

/* The last iput() evicts it, see ppc_drop_inode(). */
static void ppc_drop_names(struct inode *inode)
{
	if (S_ISDIR(inode->i_mode)) {
		struct dentry *dentry = d_find_any_alias(inode);

		if (dentry) {
			shrink_dcache_parent(dentry);
			dput(dentry);
		}
	}
	d_prune_aliases(inode);
}

/*
 * Looks at up to PPC_SWEEP_BATCH inodes from *id on.  Returns an orphan,
 * referenced; *more tells whether inodes are left behind *id.
 */
static struct inode *ppc_sweep_batch(struct ppc_sb *sbi, unsigned long *id, bool *more)
{
	struct inode *inode = NULL;
	struct ppc_inode *pi;
	unsigned int n;

	/* inodes, ours and lower ones, are freed by RCU */
	rcu_read_lock();
	pi = xa_find(&sbi->inodes, id, ULONG_MAX, XA_PRESENT);
	for (n = 0; pi && n < PPC_SWEEP_BATCH; n++) {
		if (ppc_is_orphan(pi))
			inode = igrab(&pi->vfs_inode);
		pi = xa_find_after(&sbi->inodes, id, ULONG_MAX, XA_PRESENT);
		if (inode)
			break;
	}
	rcu_read_unlock();
	*more = pi;
	return inode;
}

/* Sweeps one turn from where the last one stopped.  False: inodes are left. */
static bool ppc_sweep_turn(struct ppc_sb *sbi)
{
	u64 until_ns = ktime_get_ns() + PPC_SWEEP_TURN_NS;
	bool more = true;

	while (more && ktime_get_ns() < until_ns) {
		struct inode *inode = ppc_sweep_batch(sbi, &sbi->sweep_at, &more);

		if (inode) {
			if (READ_ONCE(ppc_bottom(PPC_I(inode)->lower)->i_nlink))
				ppc_drop_renamed(inode);
			else
				ppc_drop_names(inode);
			iput(inode);
		}
		cond_resched();
	}
	if (!more)
		sbi->sweep_at = 0;
	return !more;
}

/* Drops all unused names, and through ppc_drop_inode() their inodes. */
static void ppc_drop_all_names(struct ppc_sb *sbi)
{
	struct ppc_inode *pi;
	unsigned long id;

	shrink_dcache_sb(sbi->sb);
	/* and the nameless ones */
	xa_for_each(&sbi->inodes, id, pi) {
		struct inode *inode = ppc_ilookup(sbi, id);

		if (inode)
			iput(inode);
		cond_resched();
	}
}

/* Whether only the root is cached. */
static bool ppc_is_empty(struct ppc_sb *sbi)
{
	unsigned long id = 0;

	return !xa_find(&sbi->inodes, &id, ULONG_MAX, XA_PRESENT) ||
	       !xa_find_after(&sbi->inodes, &id, ULONG_MAX, XA_PRESENT);
}

static void ppc_sweep_in(struct ppc_sb *sbi, unsigned long delay)
{
	queue_delayed_work(ppc_long_wq, &sbi->sweep_work, delay);
}

/* The barriers (C) are drawn in README.md: stopping the sweeps, and using the mount. */
void ppc_sweep_work(struct work_struct *work)
{
	struct ppc_sb *sbi = container_of(to_delayed_work(work), struct ppc_sb, sweep_work);

	if (!sbi->sweep_at) {
		/* (C) before looking for names to drop */
		smp_store_mb(sbi->sweep_stopped, false);
		sbi->idle_sweeps = xchg(&sbi->recently_used, false) ? 0 : sbi->idle_sweeps + 1;
	}
	if (!ppc_sweep_turn(sbi)) {
		ppc_sweep_in(sbi, PPC_SWEEP_TURN);
		return;
	}
	if (sbi->idle_sweeps >= PPC_IDLE_SWEEPS && !READ_ONCE(sbi->mode)) {
		/* (C) before reading recently_used */
		smp_store_mb(sbi->sweep_stopped, true);
		/* a later attach counts as use, which keeps the ids */
		if (!READ_ONCE(sbi->recently_used))
			ppc_drop_all_names(sbi);
		if (!READ_ONCE(sbi->recently_used) && ppc_is_empty(sbi))
			return;
		WRITE_ONCE(sbi->sweep_stopped, false);
	}
	ppc_sweep_in(sbi, sbi->idle_sweeps >= PPC_IDLE_SWEEPS ? PPC_SWEEP_IDLE : PPC_SWEEP_PERIOD);
}

/**
 * ppc_sweep_note_first_use - note the first use since the last sweep
 * @sbi: mount
 *
 * Context: any.
 */
void ppc_sweep_note_first_use(struct ppc_sb *sbi)
{
	/* (C) before reading sweep_stopped */
	smp_store_mb(sbi->recently_used, true);
	if (READ_ONCE(sbi->sweep_stopped))
		ppc_sweep_in(sbi, PPC_SWEEP_PERIOD);
}

void ppc_sweep_start(struct ppc_sb *sbi)
{
	ppc_sweep_in(sbi, PPC_SWEEP_PERIOD);
}
