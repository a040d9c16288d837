/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The kernel's support for stacked file systems: backing files, the way from a
 * dentry of ours to the lower one, and what integrity checks look at.
 */
#ifndef PPC_COMPAT_STACKING_H
#define PPC_COMPAT_STACKING_H

#include <linux/cred.h>
#include <linux/dcache.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/mm.h>

/*
 * 6.5: backing files.  From 6.7 on their path is the lower one; before, and in
 * the older interface, a file's path is the user's and does not match its
 * inode.
 */
#ifdef PPC_HAVE_BACKING_FILE_HEADER
#include <linux/backing-file.h>
#endif
#ifdef PPC_HAVE_FILE_USER_PATH
#define PPC_BACKING_FILES	1
#else
#define PPC_BACKING_FILES	0
#endif
#if defined(PPC_HAVE_BACKING_FILE_OPEN)
/* with the arguments of this module */
#elif defined(PPC_HAVE_BACKING_FILE_OPEN_PATH)
#define backing_file_open(user_file, flags, real, cred) \
	backing_file_open(&(user_file)->f_path, flags, real, cred)
#else
static inline struct file *backing_file_open(const struct file *user_file, int flags,
					     const struct path *real, const struct cred *cred)
{
	return open_with_fake_path(&user_file->f_path, flags, d_inode(real->dentry), cred);
}
#endif

/*
 * Maps the lower file into the user's VMA, with the rights that the lower file
 * was opened with.  Kernels with a helper for it also ask security modules
 * about the lower file.
 */
#ifdef PPC_HAVE_BACKING_FILE_MMAP
static inline int ppc_map_lower(struct file *user, struct file *lower, struct vm_area_struct *vma)
{
	struct backing_file_ctx ctx = {
		.cred = lower->f_cred,
#ifdef PPC_HAVE_BACKING_CTX_USER_FILE
		.user_file = user,
#endif
	};

	return backing_file_mmap(lower, vma, &ctx);
}
#else
static inline int ppc_map_lower(struct file *user, struct file *lower, struct vm_area_struct *vma)
{
	const struct cred *old;
	int err;

	vma_set_file(vma, lower);
	old = override_creds(lower->f_cred);
	err = vfs_mmap(lower, vma);
	revert_creds(old);
	if (err)
		compat_mmap_failed(vma, user);
	return err;
}
#endif

/*
 * Splices from the lower file with the rights that it was opened with, as
 * backing_file_splice_read() does (6.8 and later).
 */
static inline ssize_t ppc_splice_lower(struct file *lower, loff_t *pos,
				       struct pipe_inode_info *pipe, size_t len,
				       unsigned int flags)
{
	/* the lower descriptor is the opener's, not the caller's */
	const struct cred *old = override_creds(lower->f_cred);
	ssize_t ret = vfs_splice_read(lower, pos, pipe, len, flags);

	revert_creds(old);
	return ret;
}

/*
 * ->d_real() leads uprobes, IMA and others to the inode that has the data.
 * Before 6.9 its argument is the inode that the wanted dentry must have, or
 * NULL; file_dentry() calls it so for a file whose path is not its own.
 */
#ifdef PPC_HAVE_D_REAL_TYPE
#define PPC_D_REAL_WANT	enum d_real_type
static inline bool ppc_d_real_is_upper(struct dentry *dentry, PPC_D_REAL_WANT want)
{
	return !d_is_reg(dentry);
}
#else
#define PPC_D_REAL_WANT	const struct inode *
static inline bool ppc_d_real_is_upper(struct dentry *dentry, PPC_D_REAL_WANT want)
{
	return want && d_inode(dentry) == want;
}
#endif

/*
 * 6.9: IMA remembers the checked state of the inode behind ->d_real().  Before,
 * IMA does not learn of changes below, so it must check at each access.
 */
#ifdef PPC_HAVE_IMA_REAL_INODE
#define PPC_SB_IMA	0
#else
#define PPC_SB_IMA	SB_I_IMA_UNVERIFIABLE_SIGNATURE
#endif

/* Flags of the lower file system that weaken integrity checks; ours takes them over. */
#ifdef SB_I_EVM_HMAC_UNSUPPORTED
#define PPC_SB_INTEGRITY	(SB_I_IMA_UNVERIFIABLE_SIGNATURE | SB_I_EVM_HMAC_UNSUPPORTED)
#else
#define PPC_SB_INTEGRITY	SB_I_IMA_UNVERIFIABLE_SIGNATURE
#endif

/* 6.9: the UUID has a length. */
#ifndef PPC_HAVE_SUPER_SET_UUID
static inline void ppc_copy_uuid(struct super_block *sb, const struct super_block *lower)
{
	uuid_copy(&sb->s_uuid, &lower->s_uuid);
}
#else
static inline void ppc_copy_uuid(struct super_block *sb, const struct super_block *lower)
{
	super_set_uuid(sb, lower->s_uuid.b, lower->s_uuid_len);
}
#endif

#endif /* PPC_COMPAT_STACKING_H */
