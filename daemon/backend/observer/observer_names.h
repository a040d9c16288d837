/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Identifies the page cache's inode: its key, its name, and the registered directory that contains
 * it.
 */
/* clang-format off */
#ifndef PPC_OBSERVER_NAMES_H_
#define PPC_OBSERVER_NAMES_H_

#include "observer_maps.h"

static __always_inline void fill_key(struct inode *host, struct obs_inode_key *key)
{
	key->ino = BPF_CORE_READ(host, i_ino);
	key->dev = BPF_CORE_READ(host, i_sb, s_dev);
	key->subvolume = 0;
}

static __always_inline __u32 subvolume_of(struct inode *host)
{
	struct btrfs_inode *inode;

	if (!bpf_core_type_exists(struct btrfs_inode))
		return 0;
	inode = (void *)host - bpf_core_field_offset(struct btrfs_inode, vfs_inode);
	return BPF_CORE_READ(inode, root, root_key.objectid);
}

/* Offset of a dentry's link in the list of its inode's names; 0: unknown. */
static __always_inline __u64 alias_place(void)
{
	struct dentry___flat *flat = 0;
	struct dentry *at = 0;

	if (bpf_core_field_exists(at->d_u.d_alias))
		return bpf_core_field_offset(struct dentry, d_u.d_alias);
	if (bpf_core_field_exists(flat->d_alias))
		return bpf_core_field_offset(struct dentry___flat, d_alias);
	return 0;
}

/*
 * Adds a name of the inode and its directory, by which the runner finds the file without opening
 * it.  The runner checks it, since a dentry freed or renamed meanwhile may hold anything.  Returns
 * the bytes of the name; 0: not in memory, or too long.
 */
static __always_inline __u64 add_name(struct inode *host, struct obs_unlisted_event *record)
{
	struct hlist_node *alias = BPF_CORE_READ(host, i_dentry.first);
	__u64 place = alias_place();
	struct dentry *at;
	long bytes;

	if (!alias || !place)
		return 0;
	at = (void *)alias - place;
	if (BPF_CORE_READ(at, d_name.len) >= kObsNameBytes)
		return 0;
	record->folder = BPF_CORE_READ(at, d_parent, d_inode, i_ino);
	bytes = bpf_probe_read_kernel_str(record->name, kObsNameBytes, BPF_CORE_READ(at, d_name.name));
	if (bytes <= 0 || bytes > kObsNameBytes)
		return 0;
	return bytes;
}

/*
 * The innermost registered directory that has a name of the inode.  While a task reads the file a
 * name is cached; for overlay it is the lower file's, which does not help.
 */
static __always_inline __u32 dir_of(struct inode *host)
{
	struct hlist_node *alias = BPF_CORE_READ(host, i_dentry.first);
	__u64 place = alias_place();
	struct dentry *at;

	if (!alias)
		return kObsMaxDirs;
	if (!place)
		return kObsAnyDir;
	at = (void *)alias - place;
	for (int i = 0; i < kObsMostDepth; i++) {
		struct dentry *parent = BPF_CORE_READ(at, d_parent);
		struct inode *folder = BPF_CORE_READ(parent, d_inode);
		struct obs_root_key key = {};
		__u32 *dir;

		if (parent == at || !folder)
			break;
		key.ino = BPF_CORE_READ(folder, i_ino);
		key.dev = BPF_CORE_READ(folder, i_sb, s_dev);
		dir = bpf_map_lookup_elem(&roots, &key);
		if (dir)
			return *dir;
		at = parent;
	}
	return kObsMaxDirs;
}

#endif /* PPC_OBSERVER_NAMES_H_ */
