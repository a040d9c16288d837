// SPDX-License-Identifier: GPL-2.0-only
/*
 * The sweeper: our cached names hold lower inodes, so without it `rm` of a
 * model below (or a rename over it) would free no space until memory is short.
 * Every 2 s it drops the names of files that are deleted below and not open.
 */
#include <linux/dcache.h>

#include "ppc.h"

#define PPC_SWEEP_PERIOD	(2 * HZ)

static bool ppc_is_orphan(const struct ppc_inode *pi)
{
	return !READ_ONCE(pi->lower->i_nlink) && !atomic_read(&pi->nr_open);
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

void ppc_sweep_work(struct work_struct *work)
{
	struct ppc_sb *sbi = container_of(to_delayed_work(work), struct ppc_sb, sweep_work);
	struct ppc_inode *pi;
	unsigned long id = 0;

	for (;;) {
		struct inode *inode = NULL;

		/* pi is freed by RCU, and so is its lower inode */
		rcu_read_lock();
		for (pi = xa_find(&sbi->inodes, &id, ULONG_MAX, XA_PRESENT); pi;
		     pi = xa_find_after(&sbi->inodes, &id, ULONG_MAX, XA_PRESENT)) {
			if (!ppc_is_orphan(pi))
				continue;
			inode = igrab(&pi->vfs_inode);
			break;
		}
		rcu_read_unlock();
		if (!pi)
			break;
		if (inode) {
			ppc_drop_names(inode);
			iput(inode);
		}
		id++;
		cond_resched();
	}
	schedule_delayed_work(&sbi->sweep_work, PPC_SWEEP_PERIOD);
}

void ppc_sweep_start(struct ppc_sb *sbi)
{
	schedule_delayed_work(&sbi->sweep_work, PPC_SWEEP_PERIOD);
}
