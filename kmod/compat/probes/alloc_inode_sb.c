// SPDX-License-Identifier: GPL-2.0-only
/* 5.18: alloc_inode_sb(). */
#include <linux/fs.h>
#include <linux/slab.h>

void *probe(struct super_block *sb, struct kmem_cache *cache);
void *probe(struct super_block *sb, struct kmem_cache *cache)
{
	return alloc_inode_sb(sb, cache, GFP_KERNEL);
}
