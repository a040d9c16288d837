// SPDX-License-Identifier: GPL-2.0-only
/*
 * A listener that answers for the lower file system by permission events (a
 * virus scanner, a manager of hierarchical storage) is asked here as well: our
 * own opening of the lower file is silent, so these are asked in its place, by
 * the lower path.  Which of them want to be asked about reads is decided at the
 * open, as newer kernels do.  Marks of a mount are about that mount alone and
 * do not reach here; lists of directories, which are read with our i_rwsem
 * held, are asked about when the directory is opened.
 *
 * Context: these wait for user space; no lock is held.
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

/* With ppc on ppc, one level down; false: there was none. */
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

	/* from 6.14 on the opening of the lower directory asks by itself */
	if (is_dir && !PPC_OPEN_QUIET)
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
 * @file: ours; one that fanotify itself opens for a listener asks none
 * @lower: of it
 * @marks: out: what reads are to be asked of, for ppc_ask_read()
 *
 * A file whose content is filled in when it is asked for is filled as a whole:
 * a mapping could not ask later, with mmap_lock held.
 *
 * Return: 0, or the answer of who was asked, an -errno
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
 * @marks: of ppc_ask_open(), not 0
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
