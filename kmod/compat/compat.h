/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Everything that differs between kernels.  The rest of the module is written
 * against the newest VFS interface; this file, force-included into each source
 * file, maps it onto older ones.  The build finds an interface by compiling
 * compat/probes/NAME.c (PPC_HAVE_NAME), because stable updates move interfaces
 * without a version to tell them by.
 */
#ifndef PPC_COMPAT_H
#define PPC_COMPAT_H

#include <linux/fs.h>
#include <linux/cred.h>
#include <linux/dcache.h>
#include <linux/file.h>
#include <linux/mm.h>
#include <linux/mount.h>
#include <linux/namei.h>
#include <linux/pagemap.h>
#include <linux/splice.h>

#include "ppc_probes.h"

#ifndef PPC_HAVE_MINIMUM
#error "PPC: this kernel is not supported: the module needs 5.10 or newer"
#endif

/* Inode sizes are copied without a lock. */
#ifndef CONFIG_64BIT
#error "PPC: this kernel is not supported: the module needs a 64-bit kernel"
#endif

#include "idmap.h"

#ifndef PPC_HAVE_FOLIO
#include "folio.h"
#endif

/* 6.10: asynchronous buffered reads are a property of file_operations, not of a file. */
#ifdef FOP_BUFFER_RASYNC
#define FMODE_BUF_RASYNC	0
#define PPC_FOP_RASYNC		.fop_flags = FOP_BUFFER_RASYNC,
static inline bool ppc_fop_rasync(const struct file *file)
{
	return file->f_op->fop_flags & FOP_BUFFER_RASYNC;
}
#else
#define PPC_FOP_RASYNC
static inline bool ppc_fop_rasync(const struct file *file)
{
	return false;
}
#endif

/* 5.16: ->ki_complete(iocb, ret), one result. */
#ifdef PPC_HAVE_KI_COMPLETE_RET
#define PPC_KI_COMPLETE_ARGS	struct kiocb *iocb, long ret
static inline void ppc_ki_complete(struct kiocb *iocb, long ret)
{
	iocb->ki_complete(iocb, ret);
}
#else
#define PPC_KI_COMPLETE_ARGS	struct kiocb *iocb, long ret, long ret2
static inline void ppc_ki_complete(struct kiocb *iocb, long ret)
{
	iocb->ki_complete(iocb, ret, 0);
}
#endif

/* 6.5: takes flags. */
#ifndef PPC_HAVE_ENCODE_INODE_FH_FLAGS
#include <linux/exportfs.h>
#define exportfs_encode_inode_fh(inode, fid, max_len, parent, flags) \
	exportfs_encode_inode_fh(inode, fid, max_len, parent)
#endif

/* 5.12; the argument struct has 40 bytes. */
#include <linux/fsverity.h>
#ifndef FS_IOC_READ_VERITY_METADATA
#define FS_IOC_READ_VERITY_METADATA	_IOC(_IOC_READ | _IOC_WRITE, 'f', 135, 40)
#endif

/* 6.17: renamed; 5.13: ->fileattr_get(). */
#if defined(PPC_HAVE_FILE_KATTR) && !defined(PPC_HAVE_FILEATTR)
#define PPC_HAVE_FILEATTR	1
#endif
#ifdef PPC_HAVE_FILEATTR
#include <linux/fileattr.h>
#ifndef PPC_HAVE_FILE_KATTR
#define file_kattr fileattr
#endif
#define PPC_FILEATTR_OPS(fn)	.fileattr_get = fn,
#else	/* handled like any other ioctl */
struct file_kattr;
static inline int vfs_fileattr_get(struct dentry *dentry, struct file_kattr *attr)
{
	return -ENOIOCTLCMD;
}

#define PPC_FILEATTR_OPS(fn)
#endif

/* 6.6, and stable releases of older kernels. */
#ifndef PPC_HAVE_INODE_GET_CTIME
static inline struct timespec64 inode_get_ctime(const struct inode *inode)
{
	return inode->i_ctime;
}
#endif

/* 6.2: ->get_acl() with a dentry; before, ACLs pass through the xattr handler. */
#ifdef PPC_HAVE_GET_INODE_ACL
#define PPC_ACL_OPS(fn)		.get_acl = fn,
#else
#define vfs_get_acl(idmap, dentry, name)	((struct posix_acl *)NULL)
#define PPC_ACL_OPS(fn)
#endif

#include "lookup.h"

/* 6.17: sb->s_d_op is private. */
#ifndef PPC_HAVE_SET_DEFAULT_D_OP
static inline void set_default_d_op(struct super_block *sb, const struct dentry_operations *ops)
{
	sb->s_d_op = ops;
}
#endif

/* 6.14: ->d_revalidate(dir, name, dentry, flags). */
#ifdef PPC_HAVE_D_REVALIDATE_NAME
#define PPC_D_REVALIDATE_ARGS	struct inode *dir, const struct qstr *name, \
				struct dentry *dentry, unsigned int flags
#define PPC_D_REVALIDATE_NAME	name
/* Pass the VFS's name: it is stable for the call, the dentry's may change. */
static inline int ppc_lower_d_revalidate(struct dentry *lower, const struct qstr *name,
					 unsigned int flags)
{
	struct dentry *parent;
	struct inode *dir;
	int ret;

	if (flags & LOOKUP_RCU) {
		dir = d_inode_rcu(READ_ONCE(lower->d_parent));
		return dir ? lower->d_op->d_revalidate(dir, name, lower, flags) : -ECHILD;
	}
	parent = dget_parent(lower);
	ret = lower->d_op->d_revalidate(d_inode(parent), name, lower, flags);
	dput(parent);
	return ret;
}
#else
#define PPC_D_REVALIDATE_ARGS	struct dentry *dentry, unsigned int flags
#define PPC_D_REVALIDATE_NAME	NULL
static inline int ppc_lower_d_revalidate(struct dentry *lower, const struct qstr *name,
					 unsigned int flags)
{
	return lower->d_op->d_revalidate(lower, flags);
}
#endif

/* 7.2, or earlier: a macro of dcache.h. */
#ifndef for_each_alias
#define for_each_alias(dentry, inode) \
	hlist_for_each_entry(dentry, &(inode)->i_dentry, d_u.d_alias)
#endif

/* 6.5 exports it. */
#ifndef PPC_HAVE_VFS_SPLICE_READ
static inline ssize_t vfs_splice_read(struct file *in, loff_t *ppos, struct pipe_inode_info *pipe,
				      size_t len, unsigned int flags)
{
	if (!in->f_op->splice_read)
		return -EINVAL;
	return in->f_op->splice_read(in, ppos, pipe, len, flags);
}
#endif

#include "mmap.h"
#include "stacking.h"
#include "notify.h"

/* ->readpage() or ->read_folio(); read-ahead falls back on it where there is no ->readahead(). */
static inline bool ppc_reads_folios(const struct address_space_operations *ops)
{
#ifdef PPC_HAVE_READ_FOLIO
	return ops->read_folio;
#else
	return ops->readpage;
#endif
}

#if defined(PPC_HAVE_FOLIO) && defined(PPC_HAVE_READ_FOLIO)
static inline void ppc_read_folio(const struct address_space_operations *ops, struct file *file,
				  struct folio *folio)
{
	ops->read_folio(file, folio);
}
#else
static inline void ppc_read_folio(const struct address_space_operations *ops, struct file *file,
				  struct folio *folio)
{
	ops->readpage(file, &folio->page);
}
#endif

#include "fill.h"

/* 5.14 exports it. */
#ifndef PPC_HAVE_PARSE_SOURCE
#include <linux/fs_context.h>
#include <linux/fs_parser.h>
static inline int vfs_parse_fs_param_source(struct fs_context *fc, struct fs_parameter *param)
{
	if (strcmp(param->key, "source"))
		return -ENOPARAM;
	if (param->type != fs_value_is_string)
		return invalf(fc, "Non-string source");
	if (fc->source)
		return invalf(fc, "Multiple sources");
	fc->source = param->string;
	param->string = NULL;
	return 0;
}
#endif

/* 5.18. */
#ifndef PPC_HAVE_ALLOC_INODE_SB
#define alloc_inode_sb(sb, cache, gfp)	kmem_cache_alloc(cache, gfp)
#endif

/* Before 5.18 page cache is charged to the current task only; see charge.c. */
#ifdef PPC_HAVE_ACTIVE_MEMCG
#define PPC_CAN_CHARGE	IS_ENABLED(CONFIG_MEMCG)
#else
#define PPC_CAN_CHARGE	0
#include <linux/sched/mm.h>
static inline struct mem_cgroup *compat_set_active_memcg(struct mem_cgroup *memcg)
{
	return NULL;
}

#define set_active_memcg compat_set_active_memcg
#endif

/* 6.0: FMODE_CAN_ODIRECT of the file; before, its f_mapping, which is the lower one. */
#ifndef PPC_HAVE_CAN_ODIRECT
#define FMODE_CAN_ODIRECT	((fmode_t)0)
#endif

/* 6.5; the older generic_file_splice_read() does the same for a file without page cache. */
#ifndef PPC_HAVE_COPY_SPLICE_READ
#define copy_splice_read	generic_file_splice_read
#endif

/* 6.2: const device. */
#ifdef PPC_HAVE_CLASS_DEVNODE_CONST
#define PPC_DEVNODE_CONST	const
#else
#define PPC_DEVNODE_CONST
#endif

/* 6.18. */
#ifndef PPC_HAVE_INODE_GENERIC_DROP
#define inode_generic_drop	generic_drop_inode
#endif

/* 6.19. */
#ifndef PPC_HAVE_INODE_STATE_READ_ONCE
#define inode_state_read_once(inode)	READ_ONCE((inode)->i_state)
#endif

/* 6.3: filemap_get_folio() returns an error pointer instead of NULL; this handles both. */
#define ppc_no_folio(folio)	IS_ERR_OR_NULL(folio)

/* 7.0: without ->setlease() leases are refused. */
#ifndef PPC_HAVE_SIMPLE_NOSETLEASE
#define simple_nosetlease	NULL
#endif

#endif /* PPC_COMPAT_H */
