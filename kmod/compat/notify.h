/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * inotify and fanotify: how the module's opening of lower files stays silent,
 * and how listeners of the lower files are asked instead.
 */
#ifndef PPC_COMPAT_NOTIFY_H
#define PPC_COMPAT_NOTIFY_H

#include <linux/anon_inodes.h>
#include <linux/cred.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/fsnotify.h>
#include <linux/module.h>

/*
 * Listeners on the user's file are told of accesses; those on the lower file
 * are not.  Before 6.14 an open flag says so.  Since then a backing file is as
 * quiet as the user's file was at its open (in the first of these kernels the
 * opening alone is reported).
 */
#ifndef FMODE_FSNOTIFY_NONE
#define FMODE_FSNOTIFY_NONE(mode)	((mode) & FMODE_NONOTIFY)
#endif
#ifdef PPC_HAVE_FMODE_NONOTIFY_OPEN
#define PPC_OPEN_NONOTIFY	__FMODE_NONOTIFY
#define PPC_NOTIFY_NONE		((fmode_t)0)
static inline fmode_t ppc_set_notify(struct file *file, fmode_t mode)
{
	return mode;
}
#else
#define PPC_OPEN_NONOTIFY	0
#define PPC_NOTIFY_NONE		FMODE_NONOTIFY
/* Returns the previous mode. */
static inline fmode_t ppc_set_notify(struct file *file, fmode_t mode)
{
	fmode_t old = file->f_mode & FMODE_FSNOTIFY_MASK;

	file->f_mode = (file->f_mode & ~FMODE_FSNOTIFY_MASK) | mode;
	return old;
}
#endif

/*
 * Opens a lower file for the module's own use.  No listener is told or asked:
 * the open flags say so, or a file without notification stands for the user's.
 */
#ifdef PPC_HAVE_FMODE_NONOTIFY_OPEN
static inline struct file *ppc_nonotify_file_create(void)
{
	return NULL;
}

static inline struct file *ppc_open_nonotify(struct file *nonotify_file, const struct path *path,
					     int flags, const struct cred *cred)
{
	return dentry_open(path, flags | PPC_OPEN_NONOTIFY, cred);
}
#else
static inline struct file *ppc_nonotify_file_create(void)
{
	static const struct file_operations ops = { .owner = THIS_MODULE };
	struct file *file = anon_inode_getfile("[ppc]", &ops, NULL, O_RDONLY);

	if (!IS_ERR(file))
		ppc_set_notify(file, FMODE_NONOTIFY);
	return file;
}

static inline struct file *ppc_open_nonotify(struct file *nonotify_file, const struct path *path,
					     int flags, const struct cred *cred)
{
	return backing_file_open(nonotify_file, flags, path, cred);
}
#endif

/* 6.14: listeners that fill a file with its content at the first access. */
#if defined(FS_PRE_ACCESS) && defined(CONFIG_FANOTIFY_ACCESS_PERMISSIONS)
#define PPC_PRE_ACCESS	FS_PRE_ACCESS
static inline int ppc_ask_content(const struct path *path, loff_t pos, size_t count)
{
	struct file_range range = {
		.path = path,
		.pos = PAGE_ALIGN_DOWN(pos),
		.count = PAGE_ALIGN(pos + count) - PAGE_ALIGN_DOWN(pos),
	};

	/* as fsnotify_pre_content(), which is not exported */
	return fsnotify_parent(path->dentry, FS_PRE_ACCESS, &range, FSNOTIFY_EVENT_FILE_RANGE);
}
#else
#define PPC_PRE_ACCESS	0
static inline int ppc_ask_content(const struct path *path, loff_t pos, size_t count)
{
	return 0;
}
#endif

#endif /* PPC_COMPAT_NOTIFY_H */
