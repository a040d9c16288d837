// SPDX-License-Identifier: GPL-2.0-only
/*
 * Our inodes in memory: allocation, look-up by id, eviction.
 */
#include <linux/slab.h>

#include "ppc.h"

static struct kmem_cache *ppc_inode_cache;

/**
 * ppc_ilookup - the inode of a file id
 * @sbi: mount
 * @file_id: of an event
 *
 * Context: any that may take i_lock; the last iput() may sleep.
 * Return: a referenced inode, or NULL when there is none
 */
struct inode *ppc_ilookup(struct ppc_sb *sbi, u64 file_id)
{
	struct inode *inode = NULL;
	struct ppc_inode *pi;

	rcu_read_lock();
	pi = xa_load(&sbi->inodes, file_id);
	if (pi)
		inode = igrab(&pi->vfs_inode);
	rcu_read_unlock();
	return inode;
}

struct inode *ppc_alloc_inode(struct super_block *sb)
{
	struct ppc_inode *pi = alloc_inode_sb(sb, ppc_inode_cache, GFP_KERNEL);

	if (!pi)
		return NULL;
	pi->lower = NULL;
	pi->mapping = NULL;
	pi->file_id = 0;
	pi->lower_uid = INVALID_UID;
	pi->lower_gid = INVALID_GID;
	atomic_set(&pi->nr_open, 0);
	pi->native = false;
	return &pi->vfs_inode;
}

void ppc_free_inode(struct inode *inode)
{
	kmem_cache_free(ppc_inode_cache, PPC_I(inode));
}

/* lower stays readable until the RCU grace period: RCU walks may still use it. */
void ppc_evict_inode(struct inode *inode)
{
	struct ppc_inode *pi = PPC_I(inode);

	truncate_inode_pages_final(&inode->i_data);
	clear_inode(inode);
	if (pi->file_id)
		xa_erase(&PPC_SB(inode->i_sb)->inodes, pi->file_id);
	if (pi->mapping)
		iput(pi->lower);
}

/* A deleted lower file must not stay until our inode cache shrinks. */
int ppc_drop_inode(struct inode *inode)
{
	struct inode *lower = PPC_I(inode)->lower;

	/* a mount that is not swept holds none */
	return (lower && (!READ_ONCE(ppc_bottom(lower)->i_nlink) ||
			  READ_ONCE(PPC_SB(inode->i_sb)->sweep_stopped))) ||
	       inode_generic_drop(inode);
}

static void ppc_inode_once(void *mem)
{
	struct ppc_inode *pi = mem;

	inode_init_once(&pi->vfs_inode);
}

int ppc_inode_cache_init(void)
{
	ppc_labels_init();
	ppc_inode_cache = kmem_cache_create("ppc_inode", sizeof(struct ppc_inode), 0,
					    SLAB_RECLAIM_ACCOUNT | SLAB_ACCOUNT, ppc_inode_once);
	return ppc_inode_cache ? 0 : -ENOMEM;
}

void ppc_inode_cache_exit(void)
{
	/* inodes are freed by RCU callbacks */
	rcu_barrier();
	kmem_cache_destroy(ppc_inode_cache);
}
