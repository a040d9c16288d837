// SPDX-License-Identifier: GPL-2.0-only
/*
 * Open regular files: each call is noticed (miss.c) and then made on the lower
 * file.  With nobody attached only the call is left.
 *
 * Paper: 3.1, the routing file system's read path.
 */
#include <linux/fadvise.h>
#include <linux/huge_mm.h>
#include <linux/pipe_fs_i.h>
#include <linux/uio.h>

#include "ppc.h"

/* What a caller may ask of the lower read, besides IOCB_DIRECT. */
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

/* For those who want to be asked at each read; they may take their time. */
static noinline int ppc_ask(struct file *file, loff_t pos, size_t count, bool nowait)
{
	struct path real;
	int err;

	if (nowait)
		return -EAGAIN;
	err = ppc_lower_path(file, &real);
	if (err)
		return err;
	err = ppc_ask_read(PPC_F(file)->sbi, real.dentry, PPC_F(file)->marks, pos, count);
	dput(real.dentry);
	return err;
}

static void ppc_nowait_notice(struct ppc_open *po, loff_t pos, size_t count, unsigned long mode)
{
	pgoff_t first = pos >> PAGE_SHIFT, at = first;

	if (ppc_next_absent(PPC_I(po->inode)->mapping, &at, (pos + count - 1) >> PAGE_SHIFT)) {
		if (at == first)
			return;
		count = min_t(u64, count, ((u64)at << PAGE_SHIFT) - pos);
	}
	ppc_read_notice(po, pos, count, mode & ~PPC_MODE_MANAGED);
}

static __always_inline ssize_t ppc_read_lower(struct kiocb *iocb, struct iov_iter *to,
					      struct file *lower, int flags)
{
	struct kiocb kiocb;
	ssize_t ret;

	init_sync_kiocb(&kiocb, lower);
	kiocb.ki_pos = iocb->ki_pos;
	kiocb.ki_flags |= flags | (iocb->ki_flags & PPC_IOCB_FORWARD);
	kiocb.ki_ioprio = iocb->ki_ioprio;
	kiocb.ki_waitq = iocb->ki_waitq;
	ret = lower->f_op->read_iter(&kiocb, to);
	iocb->ki_pos = kiocb.ki_pos;
	return ret;
}

/*
 * A read that must not wait gets what is before the first absent page, so only
 * that is told, and nothing is loaded (IOCB_NOIO: not by the lower file system
 * either, or what is absent would be a hit when it is told).  The rest is told
 * when the caller comes back ready to wait.
 */
static noinline ssize_t ppc_read_nowait(struct kiocb *iocb, struct iov_iter *to,
					struct ppc_open *po, unsigned long mode)
{
	ppc_nowait_notice(po, iocb->ki_pos, iov_iter_count(to), mode);
	return ppc_read_lower(iocb, to, po->lower, IOCB_NOIO);
}

static ssize_t ppc_read_iter(struct kiocb *iocb, struct iov_iter *to)
{
	struct ppc_open *po = PPC_F(iocb->ki_filp);
	struct file *lower = po->lower;
	unsigned long mode = READ_ONCE(po->sbi->mode);
	int direct;

	if (!iov_iter_count(to))
		return 0;
	if (unlikely(!lower->f_op->read_iter))
		return -EINVAL;
	if (unlikely(po->marks)) {
		int err = ppc_ask(iocb->ki_filp, iocb->ki_pos, iov_iter_count(to),
				  iocb->ki_flags & IOCB_NOWAIT);

		if (err)
			return err;
	}
	direct = ppc_direct_flag(po->sbi, iocb->ki_flags, mode);
	if (direct < 0)
		return direct;
	if (mode && !direct) {
		if (unlikely(iocb->ki_flags & IOCB_NOWAIT))
			return ppc_read_nowait(iocb, to, po, mode);
		ppc_read_notice(po, iocb->ki_pos, iov_iter_count(to), mode);
	}
	if (direct && !is_sync_kiocb(iocb))
		return ppc_read_async(iocb, to, lower,
				      direct | (iocb->ki_flags & PPC_IOCB_FORWARD));
	return ppc_read_lower(iocb, to, lower, direct);
}

static ssize_t ppc_splice_read(struct file *in, loff_t *ppos, struct pipe_inode_info *pipe,
			       size_t len, unsigned int flags)
{
	struct ppc_open *po = PPC_F(in);
	unsigned long mode = READ_ONCE(po->sbi->mode);
	size_t room = pipe->max_usage - pipe_occupancy(pipe->head, pipe->tail);
	int direct = ppc_direct_flag(po->sbi, in->f_flags & O_DIRECT ? IOCB_DIRECT : 0, mode);
	const struct cred *old;
	ssize_t ret;

	if (unlikely(po->marks)) {
		int err = ppc_ask(in, *ppos, len, false);

		if (err)
			return err;
	}
	/* before 6.5 @len may be more than the pipe takes */
	if (direct < 0)
		return direct;
	/* from 6.5 on the VFS does so before it comes here */
	if (direct)
		return copy_splice_read(in, ppos, pipe, len, flags);
	if (mode && room)
		ppc_read_notice(po, *ppos, min(len, room << PAGE_SHIFT), mode);
	/* the lower descriptor is the opener's, not the caller's */
	old = override_creds(po->lower->f_cred);
	ret = vfs_splice_read(po->lower, ppos, pipe, len, flags);
	revert_creds(old);
	return ret;
}

static loff_t ppc_llseek(struct file *file, loff_t offset, int whence)
{
	struct inode *lower = PPC_I(file_inode(file))->lower;
	loff_t pos;

	if (whence == SEEK_SET || whence == SEEK_CUR)
		return generic_file_llseek_size(file, offset, whence, lower->i_sb->s_maxbytes,
						i_size_read(lower));
	/* END, DATA, HOLE: only the lower file system knows.  Its f_pos is not used by us. */
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
		ppc_advised(po, advice);
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

/* No lease: a change below would not break it. */
#define PPC_FILE_OPS				\
	.open		= ppc_open,		\
	.release	= ppc_release,		\
	.read_iter	= ppc_read_iter,	\
	.splice_read	= ppc_splice_read,	\
	.llseek		= ppc_llseek,		\
	.mmap		= ppc_mmap,		\
	.get_unmapped_area = thp_get_unmapped_area, \
	.fadvise	= ppc_fadvise,		\
	.fsync		= ppc_fsync,		\
	.flush		= ppc_flush,		\
	.unlocked_ioctl	= ppc_ioctl,		\
	.compat_ioctl	= compat_ptr_ioctl,	\
	.setlease	= simple_nosetlease

const struct file_operations ppc_file_ops = {
	PPC_FILE_OPS
};

/* For lower files that can wait for a page on behalf of io_uring. */
const struct file_operations ppc_file_rasync_ops = {
	PPC_FILE_OPS,
	PPC_FOP_RASYNC
};
