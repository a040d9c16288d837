// SPDX-License-Identifier: GPL-2.0-only
/*
 * Inodes: one of ours per lower inode, and the operations that only read
 * metadata.  Permission is that of the lower inode for the calling user.
 */
#include <linux/fs_stack.h>
#include <linux/module.h>
#include <linux/posix_acl.h>
#include <linux/security.h>
#include <linux/xattr.h>

#include "ppc.h"

#define PPC_SET_ID	(S_ISUID | S_ISGID)

/*
 * Counts the mounts whose BASE is id-mapped.  The first of them is not mounted
 * before all CPUs have the new code, so no task can walk it earlier.
 */
DEFINE_STATIC_KEY_FALSE(ppc_idmapped_bases);

static atomic64_t ppc_last_file_id = ATOMIC64_INIT(0);

static umode_t ppc_allowed_mode(const struct inode *inode, umode_t mode)
{
	if (unlikely(mode & PPC_SET_ID) && PPC_SB(inode->i_sb)->nosuid)
		mode &= ~PPC_SET_ID;
	return mode;
}

static umode_t ppc_lower_mode(const struct inode *inode)
{
	return ppc_allowed_mode(inode, READ_ONCE(PPC_I(inode)->lower->i_mode));
}

static __always_inline bool ppc_owner_matches(const struct inode *inode)
{
	const struct inode *lower = PPC_I(inode)->lower;

	/* ppc_copy_owner() never gives our inode a forbidden bit */
	return likely(likely(inode->i_mode == lower->i_mode) ||
		      inode->i_mode == ppc_lower_mode(inode)) &&
	       likely(uid_eq(PPC_I(inode)->lower_uid, lower->i_uid)) &&
	       likely(gid_eq(PPC_I(inode)->lower_gid, lower->i_gid));
}

static void ppc_map_lower_owner(struct inode *inode)
{
	struct ppc_idmap *idmap = ppc_idmap_of(PPC_SB(inode->i_sb)->lower_mnt);
	struct ppc_inode *pi = PPC_I(inode);

	inode->i_uid = ppc_map_uid(idmap, pi->lower, pi->lower_uid);
	inode->i_gid = ppc_map_gid(idmap, pi->lower, pi->lower_gid);
}

/* Filters the mode that our inode may have: no set-id bits under nosuid. */
static __always_inline void ppc_copy_owner(struct inode *inode, umode_t mode)
{
	struct ppc_inode *pi = PPC_I(inode);

	inode->i_mode = ppc_allowed_mode(inode, mode);
	pi->lower_uid = READ_ONCE(pi->lower->i_uid);
	pi->lower_gid = READ_ONCE(pi->lower->i_gid);
	/* ids of an id-mapped BASE are mapped before a task sees them */
	if (static_branch_unlikely(&ppc_idmapped_bases)) {
		ppc_map_lower_owner(inode);
	} else {
		inode->i_uid = pi->lower_uid;
		inode->i_gid = pi->lower_gid;
	}
}

/*
 * Copies a file's owner under our i_rwsem, which bprm_fill_uid() holds too.  A
 * chown() stores the owner first and clears set-id bits later, under i_rwsem;
 * network file systems store both under i_lock or in any order.
 */
static int ppc_copy_file_owner(struct inode *inode, bool wait)
{
	struct inode *lower = PPC_I(inode)->lower;
	umode_t mode = ppc_lower_mode(inode);

	if (!(mode & PPC_SET_ID)) {
		ppc_copy_owner(inode, mode);
		return 0;
	}
	if (wait) {
		if (down_read_killable_nested(&lower->i_rwsem, I_MUTEX_CHILD))
			return -EINTR;
	} else if (!inode_trylock_shared(lower)) {
		return 0;
	}
	spin_lock(&lower->i_lock);
	ppc_copy_owner(inode, ppc_lower_mode(inode));
	spin_unlock(&lower->i_lock);
	smp_rmb();	/* the copy before the comparison */
	if (!ppc_owner_matches(inode))
		inode->i_mode &= ~PPC_SET_ID;
	inode_unlock_shared(lower);
	return 0;
}

static noinline int ppc_refresh_owner(struct inode *inode, bool wait)
{
	int err;

	if (!S_ISREG(PPC_I(inode)->lower->i_mode)) {
		ppc_copy_owner(inode, ppc_lower_mode(inode));
		return 0;
	}
	if (wait) {
		if (down_write_killable(&inode->i_rwsem))
			return -EINTR;
	} else if (!inode_trylock(inode)) {
		return 0;
	}
	err = ppc_copy_file_owner(inode, wait);
	inode_unlock(inode);
	return err;
}

/* For stat(), of which each call counts. */
static __always_inline int ppc_refresh_inline(struct inode *inode, bool wait)
{
	loff_t size = i_size_read(PPC_I(inode)->lower);

	if (unlikely(i_size_read(inode) != size))
		i_size_write(inode, size);
	return likely(ppc_owner_matches(inode)) ? 0 : ppc_refresh_owner(inode, wait);
}

/**
 * ppc_refresh - copy the fields that the VFS reads from our inode directly
 * @inode: ours
 * @wait: wait for a change of a set-id file that is under way
 *
 * The other fields (times, owner of a stat) are read from the lower inode each
 * time.  The old set-id bit is never shown with the new owner.
 *
 * Context: may sleep; locks our i_rwsem, then the lower one, which without @wait
 * are only tried: callers of stat(2) may hold ours.
 * Return: 0, -EINTR on a fatal signal while waiting
 */
int ppc_refresh(struct inode *inode, bool wait)
{
	return ppc_refresh_inline(inode, wait);
}

/*
 * Security modules read the label of our inode once.  A new lower ctime shows a
 * new label.  A setxattr() below stores the ctime first and the label later,
 * both under the lower i_rwsem.  A label that is read while that lock is held
 * may still be the old one, so it is read again at the next check.
 */
static void ppc_note_label_ctime(struct ppc_inode *pi, struct timespec64 ctime)
{
	smp_rmb();	/* the time before the lock */
	if (!inode_is_locked(pi->lower))
		pi->label_ctime = ctime;
}

static void ppc_drop_label(struct inode *inode, struct timespec64 ctime)
{
	security_inode_invalidate_secctx(inode);
	ppc_note_label_ctime(PPC_I(inode), ctime);
}

/* Whether a security module of this boot reads labels. */
static DEFINE_STATIC_KEY_FALSE_RO(ppc_labels);

static noinline void ppc_compare_label(struct inode *inode)
{
	struct timespec64 ctime = inode_get_ctime(PPC_I(inode)->lower);

	if (!timespec64_equal(&ctime, &PPC_I(inode)->label_ctime))
		ppc_drop_label(inode, ctime);
}

static inline void ppc_check_label(struct inode *inode)
{
	if (static_branch_unlikely(&ppc_labels))
		ppc_compare_label(inode);
}

/*
 * Either BASE is id-mapped or the caller's mount, never both; see
 * ppc_sb_inherit().
 */
static noinline int ppc_permission_mapped(struct ppc_idmap *idmap, struct inode *inode, int mask)
{
	/* before a security module judges the caller by our inode's label */
	ppc_check_label(inode);
	if (PPC_SB(inode->i_sb)->idmapped)
		idmap = ppc_idmap_of(PPC_SB(inode->i_sb)->lower_mnt);
	return inode_permission(idmap, PPC_I(inode)->lower, mask);
}

/*
 * execve() copies mode and owner of a set-id file long after its open, with our
 * i_rwsem held, and then asks once more whether it may be executed; "no" makes
 * the program run without set-id.  The answer is "no" if the copy differs from
 * the lower file by then.
 */
static noinline int ppc_permission_set_id(struct ppc_idmap *idmap, struct inode *inode, int mask)
{
	int err = ppc_permission_mapped(idmap, inode, mask);

	if (err || (mask & ~MAY_NOT_BLOCK) != MAY_EXEC || ppc_owner_matches(inode))
		return err;
	if (mask & MAY_NOT_BLOCK)
		return -ECHILD;
	if (!inode_trylock(inode))
		return -EACCES;
	err = ppc_copy_file_owner(inode, true);
	inode_unlock(inode);
	return err;
}

/* Only tail calls: anything else would make each step of a path walk save registers. */
static int ppc_permission(PPC_IDMAP_ARG struct inode *inode, int mask)
{
	if (unlikely(inode->i_mode & PPC_SET_ID) && S_ISREG(inode->i_mode))
		return ppc_permission_set_id(PPC_IDMAP_GIVEN, inode, mask);
	if (static_branch_unlikely(&ppc_labels) || static_branch_unlikely(&ppc_idmapped_bases))
		return ppc_permission_mapped(PPC_IDMAP_GIVEN, inode, mask);
	return inode_permission(PPC_IDMAP_GIVEN, PPC_I(inode)->lower, mask);
}

static noinline void ppc_map_owner(struct ppc_idmap *idmap, const struct inode *inode,
				   struct kstat *stat)
{
	stat->uid = ppc_map_uid(idmap, inode, stat->uid);
	stat->gid = ppc_map_gid(idmap, inode, stat->gid);
}

static int ppc_getattr(PPC_IDMAP_ARG const struct path *path, struct kstat *stat,
		       u32 request_mask, unsigned int query_flags)
{
	struct inode *inode = d_inode(path->dentry);
	struct path lower = {
		.mnt = PPC_SB(inode->i_sb)->lower_mnt,
		.dentry = PPC_D(path->dentry),
	};
	int err = vfs_getattr_nosec(&lower, stat, request_mask, query_flags);

	if (err)
		return err;
	/* in another btrfs subvolume the same number is another file */
	if (likely(stat->dev == PPC_SB(inode->i_sb)->base_dev))
		stat->dev = inode->i_sb->s_dev;
	if (unlikely(PPC_IDMAP_GIVEN != PPC_NO_IDMAP))
		ppc_map_owner(PPC_IDMAP_GIVEN, inode, stat);
	ppc_refresh_inline(inode, false);
	ppc_check_label(inode);
	return 0;
}

static const char *ppc_get_link(struct dentry *dentry, struct inode *inode,
				struct delayed_call *done)
{
	const char *link = READ_ONCE(PPC_I(inode)->lower->i_link);

	if (PPC_SB(inode->i_sb)->nosymfollow)
		return ERR_PTR(-ELOOP);
	if (link)
		return link;
	if (!dentry)
		return ERR_PTR(-ECHILD);
	return vfs_get_link(PPC_D(dentry), done);
}

/* The target of a link that is not followed may be shown. */
static int ppc_readlink(struct dentry *dentry, char __user *buffer, int size)
{
	return vfs_readlink(PPC_D(dentry), buffer, size);
}

static int ppc_fiemap(struct inode *inode, struct fiemap_extent_info *fieinfo, u64 start, u64 len)
{
	struct inode *lower = PPC_I(inode)->lower;

	if (!lower->i_op->fiemap)
		return -EOPNOTSUPP;
	return lower->i_op->fiemap(lower, fieinfo, start, len);
}

static const struct inode_operations ppc_file_iops = {
	.permission	= ppc_permission,
	.getattr	= ppc_getattr,
	.listxattr	= ppc_listxattr,
	.fiemap		= ppc_fiemap,
	PPC_FILEATTR_OPS(ppc_fileattr_get)
	PPC_ACL_OPS(ppc_get_acl)
};

static const struct inode_operations ppc_dir_iops = {
	.lookup		= ppc_lookup,
	.permission	= ppc_permission,
	.getattr	= ppc_getattr,
	.listxattr	= ppc_listxattr,
	PPC_FILEATTR_OPS(ppc_fileattr_get)
	PPC_ACL_OPS(ppc_get_acl)
};

static const struct inode_operations ppc_symlink_iops = {
	.get_link	= ppc_get_link,
	.readlink	= ppc_readlink,
	.permission	= ppc_permission,
	.getattr	= ppc_getattr,
	.listxattr	= ppc_listxattr,
};

/* ACLs change below without notice to us. */
static void ppc_dont_cache_acl(struct inode *inode)
{
#ifdef CONFIG_FS_POSIX_ACL
	inode->i_acl = ACL_DONT_CACHE;
	inode->i_default_acl = ACL_DONT_CACHE;
#endif
}

static int ppc_inode_test(struct inode *inode, void *lower)
{
	return PPC_I(inode)->lower == lower;
}

static int ppc_inode_set(struct inode *inode, void *lower)
{
	PPC_I(inode)->lower = lower;
	inode->i_ino = ((struct inode *)lower)->i_ino;
	return 0;
}

/* A ppc mount on a ppc mount takes i_rwsem of both, the upper one first. */
static void ppc_annotate_locks(struct inode *inode)
{
#ifdef CONFIG_LOCKDEP
	static struct lock_class_key ppc_dir_key[FILESYSTEM_MAX_STACK_DEPTH];
	int depth = inode->i_sb->s_stack_depth - 1;

	if (S_ISDIR(inode->i_mode) && depth >= 0 && depth < FILESYSTEM_MAX_STACK_DEPTH)
		lockdep_set_class(&inode->i_rwsem, &ppc_dir_key[depth]);
#endif
}

/*
 * For files that do not share the lower mapping (see ppc_shares_mapping()):
 * before 6.0 an open with O_DIRECT requires these operations.
 */
static const struct address_space_operations ppc_direct_aops = {
	.direct_IO	= noop_direct_IO,
};

static void ppc_inode_init(struct inode *inode, struct inode *lower)
{
	struct ppc_inode *pi = PPC_I(inode);

	ihold(lower);
	/* A ppc mount below has no page cache of its own either. */
	pi->mapping = ppc_bottom(lower)->i_mapping;
	if (pi->mapping->a_ops && pi->mapping->a_ops->direct_IO)
		inode->i_data.a_ops = &ppc_direct_aops;
	if (static_branch_unlikely(&ppc_labels)) {
		pi->label_ctime = (struct timespec64){};
		ppc_note_label_ctime(pi, inode_get_ctime(lower));
	}
	inode->i_generation = lower->i_generation;
	inode->i_blkbits = lower->i_blkbits;
	/*
	 * Not S_VERITY: fs-verity and IMA would look for a Merkle tree in our
	 * inode, which has none; ioctls and digests are passed to the lower
	 * file.
	 */
	inode->i_flags |= S_NOATIME | S_NOCMTIME;
	ppc_dont_cache_acl(inode);
	i_size_write(inode, i_size_read(lower));
	ppc_copy_owner(inode, READ_ONCE(lower->i_mode));
	/* set-id bits are copied together with the owner, or not before the open */
	if (unlikely(inode->i_mode & PPC_SET_ID) && S_ISREG(inode->i_mode)) {
		inode->i_mode &= ~PPC_SET_ID;
		ppc_refresh_owner(inode, false);
	}
	ppc_annotate_locks(inode);
	switch (inode->i_mode & S_IFMT) {
	case S_IFREG:
		inode->i_op = &ppc_file_iops;
		inode->i_fop = &ppc_file_ops;
		break;
	case S_IFDIR:
		inode->i_op = &ppc_dir_iops;
		inode->i_fop = &ppc_dir_ops;
		break;
	case S_IFLNK:
		inode->i_op = &ppc_symlink_iops;
		break;
	default:
		inode->i_op = &ppc_file_iops;
		init_special_inode(inode, inode->i_mode, lower->i_rdev);
	}
}

/**
 * ppc_iget - find or make our inode of a lower one
 * @sb: ours
 * @lower: the caller holds a reference
 *
 * Context: may sleep.
 * Return: a referenced inode or ERR_PTR
 */
struct inode *ppc_iget(struct super_block *sb, struct inode *lower)
{
	struct inode *inode = iget5_locked(sb, (unsigned long)lower, ppc_inode_test, ppc_inode_set,
					   lower);
	struct ppc_inode *pi;
	int err;

	if (!inode)
		return ERR_PTR(-ENOMEM);
	if (!(inode_state_read_once(inode) & I_NEW)) {
		ppc_refresh(inode, false);
		return inode;
	}
	pi = PPC_I(inode);
	ppc_inode_init(inode, lower);
	pi->file_id = atomic64_inc_return(&ppc_last_file_id);
	err = xa_err(xa_store(&PPC_SB(sb)->inodes, pi->file_id, pi, GFP_KERNEL));
	if (err) {
		iget_failed(inode);
		return ERR_PTR(err);
	}
	unlock_new_inode(inode);
	ppc_sweep_note_use(PPC_SB(sb));
	return inode;
}

/* Asked once at module load: security modules are never unloaded. */
void ppc_labels_init(void)
{
	if (security_ismaclabel(XATTR_SELINUX_SUFFIX) || security_ismaclabel(XATTR_SMACK_SUFFIX))
		static_branch_enable(&ppc_labels);
}
