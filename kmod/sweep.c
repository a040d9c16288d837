// SPDX-License-Identifier: GPL-2.0-only
/*
 * The sweeper: our cached names hold lower inodes, so without it `rm` of a
 * model below (or a rename over it) would free no space until memory is short.
 * Every 2 s it drops the names of files that are deleted below and not open,
 * and names of others that are gone.
 */
#include <linux/dcache.h>

#include "ppc.h"

#define PPC_SWEEP_PERIOD	(2 * HZ)
#define PPC_SWEEP_BATCH		1024

/*
 * A name that went while the file has others.  An NFS client that sees the
 * name in use, as it is by us, renames the file instead of removing it.
 */
static bool ppc_name_is_gone(struct dentry *alias)
{
	const struct dentry *lower = PPC_D(alias);

	return lower && !IS_ROOT(alias) &&
	       (d_unhashed(lower) || lower->d_flags & DCACHE_NFSFS_RENAMED);
}

static bool ppc_is_orphan(struct ppc_inode *pi)
{
	struct inode *inode = &pi->vfs_inode;
	struct dentry *alias;
	bool gone = false;

	if (atomic_read(&pi->nr_open))
		return false;
	if (!READ_ONCE(pi->lower->i_nlink))
		return true;
	spin_lock(&inode->i_lock);
	/* from then on the RCU head is where the list was */
	if (!(inode_state_read_once(inode) & I_FREEING)) {
		for_each_alias(alias, inode)
			gone |= ppc_name_is_gone(alias);
	}
	spin_unlock(&inode->i_lock);
	return gone;
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
 * Looks at up to PPC_SWEEP_BATCH inodes from *id on.  Returns the orphan it
 * found, referenced; *more tells whether there are inodes behind *id.
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

void ppc_sweep_work(struct work_struct *work)
{
	struct ppc_sb *sbi = container_of(to_delayed_work(work), struct ppc_sb, sweep_work);
	unsigned long id = 0;
	bool more = true;

	while (more) {
		struct inode *inode = ppc_sweep_batch(sbi, &id, &more);

		if (inode) {
			ppc_drop_names(inode);
			iput(inode);
		}
		cond_resched();
	}
	schedule_delayed_work(&sbi->sweep_work, PPC_SWEEP_PERIOD);
}

void ppc_sweep_start(struct ppc_sb *sbi)
{
	schedule_delayed_work(&sbi->sweep_work, PPC_SWEEP_PERIOD);
}
