/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Id-mapped mounts.  5.12: inode operations have an argument for the mapping, a
 * struct user_namespace; 6.3: a struct mnt_idmap.  Declarations begin with
 * PPC_IDMAP_ARG; wrappers here drop the argument where a kernel's function has
 * none.
 */
#ifndef PPC_COMPAT_IDMAP_H
#define PPC_COMPAT_IDMAP_H

#include <linux/fs.h>
#include <linux/mount.h>
#include <linux/posix_acl.h>
#include <linux/xattr.h>

#if defined(PPC_HAVE_MNT_IDMAP)

#include <linux/mnt_idmapping.h>

#define ppc_idmap	mnt_idmap
#define PPC_NO_IDMAP	(&nop_mnt_idmap)
/* Single ids can be mapped, as they are copied from a lower inode. */
#define PPC_MAPS_IDS	1

static inline struct mnt_idmap *ppc_idmap_of(const struct vfsmount *mnt)
{
	return mnt_idmap(mnt);
}

static inline kuid_t ppc_map_uid(struct mnt_idmap *idmap, const struct inode *inode, kuid_t uid)
{
	return vfsuid_into_kuid(make_vfsuid(idmap, i_user_ns(inode), uid));
}

static inline kgid_t ppc_map_gid(struct mnt_idmap *idmap, const struct inode *inode, kgid_t gid)
{
	return vfsgid_into_kgid(make_vfsgid(idmap, i_user_ns(inode), gid));
}

#else

#define PPC_MAPS_IDS	0

#if defined(PPC_HAVE_MNT_USER_NS)
#define ppc_idmap	user_namespace
#define PPC_NO_IDMAP	(&init_user_ns)
static inline struct user_namespace *ppc_idmap_of(const struct vfsmount *mnt)
{
	return mnt_user_ns(mnt);
}

#ifndef PPC_HAVE_IS_IDMAPPED_MNT
static inline bool is_idmapped_mnt(const struct vfsmount *mnt)
{
	return mnt_user_ns(mnt) != &init_user_ns;
}
#endif
#else
struct ppc_idmap;
#define PPC_NO_IDMAP	NULL
static inline struct ppc_idmap *ppc_idmap_of(const struct vfsmount *mnt)
{
	return NULL;
}

#define inode_permission(idmap, inode, mask) \
	((void)(idmap), inode_permission(inode, mask))
#define vfs_getxattr(idmap, dentry, name, value, size) \
	vfs_getxattr(dentry, name, value, size)

static inline bool is_idmapped_mnt(const struct vfsmount *mnt)
{
	return false;
}
#endif

static inline kuid_t ppc_map_uid(struct ppc_idmap *idmap, const struct inode *inode, kuid_t uid)
{
	return uid;
}

static inline kgid_t ppc_map_gid(struct ppc_idmap *idmap, const struct inode *inode, kgid_t gid)
{
	return gid;
}

#endif

/*
 * The argument that an operation gets; no mapping where there is none.  6.12: a
 * super block can refuse id-mapped mounts, as some of ours must.
 */
#if defined(PPC_HAVE_MNT_USER_NS) || defined(PPC_HAVE_MNT_IDMAP)
#define PPC_IDMAP_ARG	struct ppc_idmap *idmap,
#define PPC_IDMAP_GIVEN	idmap
#else
#define PPC_IDMAP_ARG
#define PPC_IDMAP_GIVEN	PPC_NO_IDMAP
#endif

#if PPC_MAPS_IDS && defined(SB_I_NOIDMAP)
#define PPC_CAN_BE_IDMAPPED	1
#define PPC_FS_ALLOW_IDMAP	FS_ALLOW_IDMAP
static inline bool ppc_may_idmap(const struct super_block *sb)
{
	return (sb->s_type->fs_flags & FS_ALLOW_IDMAP) && !(sb->s_iflags & SB_I_NOIDMAP);
}

static inline void ppc_refuse_idmap(struct super_block *sb)
{
	sb->s_iflags |= SB_I_NOIDMAP;
}
#else
#define PPC_CAN_BE_IDMAPPED	0
#define PPC_FS_ALLOW_IDMAP	0
static inline bool ppc_may_idmap(const struct super_block *sb)
{
	return false;
}

static inline void ppc_refuse_idmap(struct super_block *sb)
{
}
#endif

#endif /* PPC_COMPAT_IDMAP_H */
