// SPDX-License-Identifier: GPL-2.0-only
/*
 * Open regular files: each call is noticed (miss.c) and then made on the lower
 * file.  With nobody attached only the call is left.
 *
 * Paper: 3.1, the routing file system's read path.
 */
#include <linux/fadvise.h>
#include <linux/uio.h>

#include "ppc.h"

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

static ssize_t ppc_read_iter(struct kiocb *iocb, struct iov_iter *to)
{
	struct ppc_open *po = PPC_F(iocb->ki_filp);
	struct file *lower = po->lower;
	unsigned long mode = READ_ONCE(po->sbi->mode);
	struct kiocb kiocb;
	ssize_t ret;
	int direct;

	if (!iov_iter_count(to))
		return 0;
	if (unlikely(!lower->f_op->read_iter))
		return -EINVAL;
	direct = ppc_direct_flag(po->sbi, iocb->ki_flags, mode);
	if (direct < 0)
		return direct;
	if (mode && !direct)
		ppc_read_notice(po, iocb->ki_pos, iov_iter_count(to), mode);

	init_sync_kiocb(&kiocb, lower);
	kiocb.ki_pos = iocb->ki_pos;
	kiocb.ki_flags |= direct | (iocb->ki_flags & IOCB_HIPRI);
	kiocb.ki_ioprio = iocb->ki_ioprio;
	ret = lower->f_op->read_iter(&kiocb, to);
	iocb->ki_pos = kiocb.ki_pos;
	return ret;
}

static ssize_t ppc_splice_read(struct file *in, loff_t *ppos, struct pipe_inode_info *pipe,
			       size_t len, unsigned int flags)
{
	struct ppc_open *po = PPC_F(in);
	unsigned long mode = READ_ONCE(po->sbi->mode);

	if (mode)
		ppc_read_notice(po, *ppos, len, mode);
	return vfs_splice_read(po->lower, ppos, pipe, len, flags);
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

const struct file_operations ppc_file_ops = {
	.open		= ppc_open,
	.release	= ppc_release,
	.read_iter	= ppc_read_iter,
	.splice_read	= ppc_splice_read,
	.llseek		= ppc_llseek,
	.mmap		= ppc_mmap,
	.fadvise	= ppc_fadvise,
	.fsync		= ppc_fsync,
	.flush		= ppc_flush,
};
