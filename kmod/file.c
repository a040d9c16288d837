// SPDX-License-Identifier: GPL-2.0-only
/*
 * Open regular files: each call is examined by miss.c and then made on the
 * lower file.  Without a consumer only the lower call remains.
 *
 * Paper: 3.1, the routing file system's read path.
 */
#include <linux/fadvise.h>
#include <linux/huge_mm.h>
#include <linux/pipe_fs_i.h>
#include <linux/uio.h>

#include "ppc.h"

/* Flags of a request that are passed to the lower read, besides IOCB_DIRECT. */
#define PPC_IOCB_FORWARD	(IOCB_HIPRI | IOCB_NOWAIT | IOCB_NOIO | IOCB_WAITQ)

/* Decided per call, so that attaching and detaching act on open files too. */
static int ppc_direct_flag(const struct ppc_sb *sbi, int ki_flags, unsigned long mode)
{
	if (likely(!(ki_flags & IOCB_DIRECT)))
		return 0;
	switch (READ_ONCE(sbi->opts.odirect)) {
	case PPC_ODIRECT_PASS:
		return IOCB_DIRECT;
	case PPC_ODIRECT_AUTO:
		return mode ? 0 : IOCB_DIRECT;
	case PPC_ODIRECT_BUFFERED:
		return 0;
	case PPC_ODIRECT_DENY:
		break;		/* turned on by fcntl() after the open */
	}
	return -EINVAL;
}

/* Asks the listeners that must allow each read; they may take long. */
static int ppc_may_read(struct file *file, loff_t pos, size_t count, bool nowait)
{
	struct ppc_open *po = PPC_F(file);
	struct path real;
	struct dentry *held;
	int err;

	if (!po->marks)
		return 0;
	if (nowait)
		return -EAGAIN;
	err = ppc_lower_path(file, &real, &held);
	if (err)
		return err;
	err = ppc_ask_read(po->sbi, real.dentry, po->marks, pos, count);
	dput(held);
	return err;
}

static void ppc_report_nowait(struct ppc_open *po, loff_t pos, size_t count, unsigned long mode)
{
	pgoff_t first = pos >> PAGE_SHIFT, at = first;

	if (!count)
		return;
	if (ppc_next_absent(PPC_I(po->inode)->mapping, &at, (pos + count - 1) >> PAGE_SHIFT)) {
		if (at == first)
			return;
		count = min_t(u64, count, ((u64)at << PAGE_SHIFT) - pos);
	}
	ppc_report_read(po, pos, count, mode & ~PPC_MODE_MANAGED);
}

/*
 * Not backing_file_read_iter(): it passes on RWF_* only, which loses io_uring's
 * page wait and IOCB_NOIO, and it asks security modules about the lower file,
 * although the VFS has asked them about the user's.
 */
static __always_inline ssize_t ppc_read_lower(struct kiocb *iocb, struct iov_iter *to,
					      struct file *lower, int flags)
{
	struct kiocb kiocb = {
		.ki_filp = lower,
		.ki_pos = iocb->ki_pos,
		.ki_flags = flags | (iocb->ki_flags & PPC_IOCB_FORWARD),
		.ki_ioprio = iocb->ki_ioprio,
		.ki_waitq = iocb->ki_waitq,
	};
	ssize_t ret = lower->f_op->read_iter(&kiocb, to);

	/* a buffered read returned nothing, so the iterator is unchanged */
	if (unlikely(ret == -EIO) && !(kiocb.ki_flags & (IOCB_DIRECT | IOCB_NOWAIT)) &&
	    ppc_drop_failed(lower->f_mapping, kiocb.ki_pos >> PAGE_SHIFT))
		ret = lower->f_op->read_iter(&kiocb, to);
	iocb->ki_pos = kiocb.ki_pos;
	return ret;
}

/*
 * A read that must not wait returns the pages before the first absent one, so
 * only those are reported and nothing is loaded.  IOCB_NOIO keeps the lower
 * file system from loading too, which would turn the reported miss into a hit.
 * The rest is reported when the caller returns ready to wait.
 */
static ssize_t ppc_read_nowait(struct kiocb *iocb, struct iov_iter *to, struct ppc_open *po,
			       unsigned long mode)
{
	ppc_report_nowait(po, iocb->ki_pos, iov_iter_count(to), mode);
	return ppc_read_lower(iocb, to, po->lower, IOCB_NOIO);
}

static noinline ssize_t ppc_read_flagged(struct kiocb *iocb, struct iov_iter *to,
					 struct ppc_open *po, unsigned long mode)
{
	int direct = ppc_direct_flag(po->sbi, iocb->ki_flags, mode);

	if (direct < 0)
		return direct;
	if (direct && !is_sync_kiocb(iocb))
		return ppc_read_async(iocb, to, po->lower,
				      direct | (iocb->ki_flags & PPC_IOCB_FORWARD));
	if (direct || !mode)
		return ppc_read_lower(iocb, to, po->lower, direct);
	if (iocb->ki_flags & IOCB_NOWAIT)
		return ppc_read_nowait(iocb, to, po, mode);
	ppc_report_read(po, iocb->ki_pos, iov_iter_count(to), mode);
	return ppc_read_lower(iocb, to, po->lower, 0);
}

static ssize_t ppc_read_iter(struct kiocb *iocb, struct iov_iter *to)
{
	struct ppc_open *po = PPC_F(iocb->ki_filp);
	unsigned long mode = READ_ONCE(po->sbi->mode);

	if (unlikely(iocb->ki_flags & (IOCB_DIRECT | IOCB_NOWAIT)))
		return ppc_read_flagged(iocb, to, po, mode);
	if (mode)
		ppc_report_read(po, iocb->ki_pos, iov_iter_count(to), mode);
	return ppc_read_lower(iocb, to, po->lower, 0);
}

/* For files whose reads a listener must allow, or that must bypass the page cache. */
static ssize_t ppc_checked_read_iter(struct kiocb *iocb, struct iov_iter *to)
{
	struct ppc_open *po = PPC_F(iocb->ki_filp);
	loff_t pos = iocb->ki_pos;
	bool tests_bypass;
	ssize_t ret;

	if (!iov_iter_count(to))
		return 0;
	ret = ppc_may_read(iocb->ki_filp, pos, iov_iter_count(to), iocb->ki_flags & IOCB_NOWAIT);
	if (ret)
		return ret;
	tests_bypass = ppc_tests_bypass(po, pos);
	ret = ppc_read_iter(iocb, to);
	if (tests_bypass && ret > 0)
		ppc_learn_bypass(po, pos);
	return ret;
}

static ssize_t ppc_splice_read(struct file *in, loff_t *ppos, struct pipe_inode_info *pipe,
			       size_t len, unsigned int flags)
{
	struct ppc_open *po = PPC_F(in);
	unsigned long mode = READ_ONCE(po->sbi->mode);
	size_t room = pipe->max_usage - pipe_occupancy(pipe->head, pipe->tail);
	int direct = ppc_direct_flag(po->sbi, in->f_flags & O_DIRECT ? IOCB_DIRECT : 0, mode);
	ssize_t ret;

	/* before 6.5 @len may exceed the pipe's size */
	if (direct < 0)
		return direct;
	/* from 6.5 on the VFS does so first */
	if (direct)
		return copy_splice_read(in, ppos, pipe, len, flags);
	if (mode && room)
		ppc_report_read(po, *ppos, min(len, room << PAGE_SHIFT), mode);
	ret = ppc_splice_lower(po->lower, ppos, pipe, len, flags);
	if (unlikely(ret == -EIO) &&
	    ppc_drop_failed(PPC_I(po->inode)->mapping, *ppos >> PAGE_SHIFT))
		ret = ppc_splice_lower(po->lower, ppos, pipe, len, flags);
	return ret;
}

/*
 * The VFS holds the pipe's mutex, so a slow listener also delays every other
 * user of that pipe.  Before 6.8 that holds for any file: the VFS itself asks
 * with the mutex held.  The only alternative is to ask about all splices at the
 * open.
 */
static ssize_t ppc_checked_splice_read(struct file *in, loff_t *ppos, struct pipe_inode_info *pipe,
				       size_t len, unsigned int flags)
{
	struct ppc_open *po = PPC_F(in);
	loff_t pos = *ppos;
	bool tests_bypass;
	ssize_t ret = ppc_may_read(in, pos, len, false);

	if (ret)
		return ret;
	tests_bypass = ppc_tests_bypass(po, pos);
	ret = ppc_splice_read(in, ppos, pipe, len, flags);
	if (tests_bypass && ret > 0)
		ppc_learn_bypass(po, pos);
	return ret;
}

static loff_t ppc_llseek(struct file *file, loff_t offset, int whence)
{
	struct inode *lower = PPC_I(file_inode(file))->lower;
	loff_t pos;

	if (whence == SEEK_SET || whence == SEEK_CUR)
		return generic_file_llseek_size(file, offset, whence, lower->i_sb->s_maxbytes,
						i_size_read(lower));
	/* The lower file system knows END, DATA and HOLE.  Its f_pos is not used here. */
	pos = vfs_llseek(PPC_F(file)->lower, offset, whence);
	if (pos < 0)
		return pos;
	return vfs_setpos(file, pos, lower->i_sb->s_maxbytes);
}

static int ppc_fadvise(struct file *file, loff_t offset, loff_t len, int advice)
{
	struct ppc_open *po = PPC_F(file);
	int err = vfs_fadvise(po->lower, offset, len, advice);

	if (!err)
		ppc_apply_advice(po, advice);
	return err;
}

static int ppc_fsync(struct file *file, loff_t start, loff_t end, int datasync)
{
	return vfs_fsync_range(PPC_F(file)->lower, start, end, datasync);
}

static int ppc_flush(struct file *file, fl_owner_t id)
{
	struct file *lower = PPC_F(file)->lower;

	return lower->f_op->flush ? lower->f_op->flush(lower, id) : 0;
}

static long ppc_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	return ppc_lower_ioctl(PPC_F(file)->lower, cmd, arg);
}

static const struct file_operations *ppc_choose_file_ops(const struct ppc_open *po);

/* Applies odirect= to an open file with O_DIRECT; counts it either way. */
static int ppc_open_direct(struct ppc_open *po, struct file *file)
{
	struct ppc_sb *sbi = po->sbi;
	enum ppc_odirect how = READ_ONCE(sbi->opts.odirect);

	if (how != PPC_ODIRECT_DENY)
		file->f_mode |= po->lower->f_mode & FMODE_CAN_ODIRECT;
	if (!(file->f_flags & O_DIRECT))
		return 0;
	if (how == PPC_ODIRECT_DENY)
		return -EINVAL;
	ppc_stat_add(sbi, PPC_STAT_ODIRECT_OPENS, 1);
	po->direct = how == PPC_ODIRECT_PASS || (how == PPC_ODIRECT_AUTO && !READ_ONCE(sbi->mode));
	return 0;
}

/**
 * ppc_file_open - ->open of regular files
 * @inode: ours
 * @file: the user's
 *
 * Context: may sleep.
 * Return: 0 or -errno
 */
static int ppc_file_open(struct inode *inode, struct file *file)
{
	struct ppc_open *po = ppc_open_create(inode, file);
	int err;

	if (IS_ERR(po))
		return PTR_ERR(po);
	err = ppc_open_direct(po, file);
	if (!err)
		err = ppc_refresh(inode, true);
	if (err) {
		ppc_open_abort(po);
		return err;
	}
	if (po->sbi->shares_mapping)
		file->f_mapping = PPC_I(inode)->mapping;
	file->f_wb_err = filemap_sample_wb_err(file->f_mapping);
	file->f_mode |= po->lower->f_mode & (FMODE_NOWAIT | FMODE_BUF_RASYNC);
	file->f_op = ppc_choose_file_ops(po);
	file->private_data = po;
	ppc_open_list_add(po);
	ppc_open_event(po, PPC_EV_OPEN);
	return 0;
}

static int ppc_file_release(struct inode *inode, struct file *file)
{
	ppc_open_put(PPC_F(file));
	return 0;
}

/* No leases: a change below would not break them. */
#define PPC_FILE_OPS				\
	.open		= ppc_file_open,	\
	.release	= ppc_file_release,	\
	.llseek		= ppc_llseek,		\
	.mmap		= ppc_mmap,		\
	.get_unmapped_area = thp_get_unmapped_area, \
	.fadvise	= ppc_fadvise,		\
	.fsync		= ppc_fsync,		\
	.flush		= ppc_flush,		\
	.unlocked_ioctl	= ppc_ioctl,		\
	.compat_ioctl	= compat_ptr_ioctl,	\
	.setlease	= simple_nosetlease

#define PPC_READ_OPS				\
	.read_iter	= ppc_read_iter,	\
	.splice_read	= ppc_splice_read

#define PPC_CHECKED_OPS				\
	.read_iter	= ppc_checked_read_iter, \
	.splice_read	= ppc_checked_splice_read

const struct file_operations ppc_file_ops = {
	PPC_FILE_OPS,
	PPC_READ_OPS
};

static const struct file_operations ppc_checked_file_ops = {
	PPC_FILE_OPS,
	PPC_CHECKED_OPS
};

/* For lower files that can wait for a page on io_uring's behalf. */
static const struct file_operations ppc_rasync_file_ops = {
	PPC_FILE_OPS,
	PPC_READ_OPS,
	PPC_FOP_RASYNC
};

static const struct file_operations ppc_checked_rasync_file_ops = {
	PPC_FILE_OPS,
	PPC_CHECKED_OPS,
	PPC_FOP_RASYNC
};

/* For lower files without regular reads; the VFS recognises them by these operations. */
static const struct file_operations ppc_unread_file_ops = {
	PPC_FILE_OPS
};

/* Chooses operations by the checks that reads need, so that no read repeats the choice. */
static const struct file_operations *ppc_choose_file_ops(const struct ppc_open *po)
{
	bool rasync = ppc_fop_rasync(po->lower);

	if (unlikely(!po->lower->f_op->read_iter))
		return &ppc_unread_file_ops;
	if (unlikely(po->marks || po->history.bypass))
		return rasync ? &ppc_checked_rasync_file_ops : &ppc_checked_file_ops;
	return rasync ? &ppc_rasync_file_ops : &ppc_file_ops;
}
