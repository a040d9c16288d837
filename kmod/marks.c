// SPDX-License-Identifier: GPL-2.0-only
/*
 * Permission events of the lower files (a virus scanner, hierarchical storage).
 * The module opens lower files silently, so this file asks the listeners
 * instead, by the lower path.  Whether a listener wants to be asked about reads
 * is decided at the open, as newer kernels do.  Mount marks are about their own
 * mount and do not reach here.  Reads of directories hold our i_rwsem, so
 * listeners are asked at the open of a directory.
 *
 * Context: these functions wait for user space; no lock is held.
 */
#include "ppc.h"

#ifdef CONFIG_FANOTIFY_ACCESS_PERMISSIONS

#define PPC_OPEN_MARKS	(FS_OPEN_PERM | FS_OPEN_EXEC_PERM)
#define PPC_READ_MARKS	(FS_ACCESS_PERM | PPC_PRE_ACCESS)

/* The events that listeners subscribed to: on the inode, its directory and its file system. */
static u32 ppc_marks_of(struct dentry *lower)
{
	const struct inode *inode = d_inode(lower);
	u32 mask = READ_ONCE(inode->i_fsnotify_mask) | READ_ONCE(inode->i_sb->s_fsnotify_mask);
	struct dentry *parent;

	if (lower->d_flags & DCACHE_FSNOTIFY_PARENT_WATCHED) {
		parent = dget_parent(lower);
		mask |= READ_ONCE(d_inode(parent)->i_fsnotify_mask);
		dput(parent);
	}
	return mask & (PPC_OPEN_MARKS | PPC_READ_MARKS);
}

static int ppc_ask_event(const struct path *path, u32 event)
{
	return fsnotify_parent(path->dentry, event, path, FSNOTIFY_EVENT_PATH);
}

/* Steps to the next ppc mount below; false: there is none. */
static bool ppc_path_down(struct path *path)
{
	if (path->dentry->d_sb->s_type != &ppc_fs_type)
		return false;
	path->mnt = PPC_SB(path->dentry->d_sb)->fanotify_mnt;
	path->dentry = PPC_D(path->dentry);
	return path->dentry;
}

static int ppc_ask_open_at(const struct file *file, const struct path *real, u32 mask)
{
	bool is_dir = d_is_dir(real->dentry);
	int err = 0;

	/* from 6.14 on the opening of the lower directory asks itself */
	if (is_dir && !PPC_OPEN_NONOTIFY)
		return 0;
	if (file->f_flags & __FMODE_EXEC)
		err = ppc_ask_event(real, FS_OPEN_EXEC_PERM);
	if (!err)
		err = ppc_ask_event(real, FS_OPEN_PERM);
	if (!err && (mask & PPC_PRE_ACCESS) && !is_dir)
		err = ppc_ask_content(real, 0, i_size_read(d_inode(real->dentry)));
	return err;
}

/**
 * ppc_ask_open - ask whether a file or directory may be opened
 * @file: ours; a file that fanotify opens for a listener asks none
 * @lower: dentry of the lower file
 * @marks: out: events that reads must ask about, for ppc_ask_read()
 *
 * A file that a listener fills on demand is filled as a whole: a mapping could
 * not ask later, with mmap_lock held.
 *
 * Return: 0, or the listener's answer, an -errno
 */
int ppc_ask_open(const struct file *file, struct dentry *lower, u32 *marks)
{
	struct path path = {
		.mnt = PPC_SB(file_inode(file)->i_sb)->fanotify_mnt,
		.dentry = lower,
	};
	u32 mask;
	int err;

	*marks = 0;
	if (FMODE_FSNOTIFY_NONE(file->f_mode))
		return 0;
	do {
		mask = ppc_marks_of(path.dentry);
		if (likely(!mask))
			continue;
		err = ppc_ask_open_at(file, &path, mask);
		if (err)
			return err;
		*marks |= mask & PPC_READ_MARKS;
	} while (ppc_path_down(&path));
	return 0;
}

/**
 * ppc_ask_read - ask whether a range may be read
 * @sbi: mount
 * @lower: dentry of the file
 * @marks: from ppc_ask_open(), not 0
 * @pos: in bytes
 * @count: in bytes
 *
 * Return: 0 or -errno, as ppc_ask_open()
 */
int ppc_ask_read(struct ppc_sb *sbi, struct dentry *lower, u32 marks, loff_t pos, size_t count)
{
	struct path path = { .mnt = sbi->fanotify_mnt, .dentry = lower };
	int err = 0;

	do {
		if (marks & PPC_PRE_ACCESS)
			err = ppc_ask_content(&path, pos, count);
		if (!err && (marks & FS_ACCESS_PERM))
			err = ppc_ask_event(&path, FS_ACCESS_PERM);
	} while (!err && ppc_path_down(&path));
	return err;
}

#else	/* the kernel asks no listener */

int ppc_ask_open(const struct file *file, struct dentry *lower, u32 *marks)
{
	*marks = 0;
	return 0;
}

int ppc_ask_read(struct ppc_sb *sbi, struct dentry *lower, u32 marks, loff_t pos, size_t count)
{
	return 0;
}

#endif
