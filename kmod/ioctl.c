// SPDX-License-Identifier: GPL-2.0-only
/*
 * The table of ioctls of /dev/ppcN: copies each argument in, checks it fully,
 * calls the file that does the work, and copies the result out.
 */
#include <linux/log2.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "ppc.h"
#include "ppc_dev.h"

static bool ppc_valid_size(u32 value, u32 min, u32 max)
{
	return !value || (is_power_of_2(value) && value >= min && value <= max);
}

static bool ppc_valid_attach(const struct ppc_attach *req)
{
	const u32 known = PPC_ATTACH_MANAGED_RA | PPC_ATTACH_BEACON | PPC_ATTACH_TRACE |
			  PPC_ATTACH_OPENCLOSE;

	return !(req->flags & ~known) && req->lease_ms >= PPC_LEASE_MS_MIN &&
	       req->lease_ms <= PPC_LEASE_MS_MAX &&
	       ppc_valid_size(req->window_bytes, PAGE_SIZE, PPC_WINDOW_BYTES_MAX) &&
	       ppc_valid_size(req->beacon_bytes, PPC_BEACON_BYTES_MIN, PPC_BEACON_BYTES_MAX) &&
	       strnlen(req->label, sizeof(req->label)) < sizeof(req->label) &&
	       !memchr_inv(req->reserved, 0, sizeof(req->reserved));
}

static int ppc_ioc_attach(struct ppc_sb *sbi, struct ppc_devfile *df, void *arg)
{
	if (!ppc_valid_attach(arg))
		return -EINVAL;
	return ppc_dev_attach(sbi, df, arg);
}

static int ppc_ioc_detach(struct ppc_sb *sbi, struct ppc_devfile *df, void *arg)
{
	return ppc_dev_detach(sbi, df);
}

static int ppc_ioc_flush(struct ppc_sb *sbi, struct ppc_devfile *df, void *arg)
{
	struct ppc_session *session = ppc_devfile_session(df);

	if (!session || rcu_access_pointer(sbi->session) != session)
		return -ENOTCONN;
	ppc_access_flush_all(sbi);
	return 0;
}

static u32 ppc_state(struct ppc_sb *sbi)
{
	unsigned long mode = READ_ONCE(sbi->mode);
	u32 state = 0;

	if (mode & PPC_MODE_ATTACHED)
		state |= PPC_STATE_ATTACHED;
	if (mode & PPC_MODE_MANAGED)
		state |= PPC_STATE_MANAGED_RA;
	if (mode & PPC_MODE_TRACE)
		state |= PPC_STATE_TRACE;
	if (mode & PPC_MODE_BEACON)
		state |= PPC_STATE_BEACON;
	if (READ_ONCE(sbi->expired))
		state |= PPC_STATE_EXPIRED;
	return state;
}

static int ppc_ioc_info(struct ppc_sb *sbi, struct ppc_devfile *df, void *arg)
{
	struct ppc_session *session = ppc_devfile_session(df);
	struct ppc_info *info = arg;

	info->version = PPC_UAPI_VERSION;
	info->caps = ppc_charge_caps() | (PPC_BACKING_FILES ? PPC_CAP_BACKING_FILE : 0);
	info->state = ppc_state(sbi);
	info->page_bytes = PAGE_SIZE;
	info->dev_major = MAJOR(sbi->sb->s_dev);
	info->dev_minor = MINOR(sbi->sb->s_dev);
	info->window_bytes = READ_ONCE(sbi->window_pages) << PAGE_SHIFT;
	info->beacon_bytes = 1U << (READ_ONCE(sbi->beacon_shift) + PAGE_SHIFT);
	info->lease_ms = session ? ppc_session_lease_ms(session) : 0;
	info->nr_open = ppc_nr_open(sbi);
	info->events_queued = ppc_stat_sum(sbi, PPC_STAT_QUEUED);
	info->events_dropped = ppc_stat_sum(sbi, PPC_STAT_DROPPED);
	info->events_coalesced = ppc_stat_sum(sbi, PPC_STAT_COALESCED);
	info->wakeups = ppc_stat_sum(sbi, PPC_STAT_WAKEUPS);
	info->lease_expiries = ppc_stat_sum(sbi, PPC_STAT_LEASE_EXPIRIES);
	return 0;
}

static int ppc_ioc_file(struct ppc_sb *sbi, struct ppc_devfile *df, void *arg)
{
	return ppc_name_of_id(sbi, arg);
}

static int ppc_ioc_lookup(struct ppc_sb *sbi, struct ppc_devfile *df, void *arg)
{
	return ppc_id_of_name(sbi, arg);
}

/* Finds the regular file of an id; referenced. */
static struct inode *ppc_regular(struct ppc_sb *sbi, u64 file_id)
{
	struct inode *inode = ppc_ilookup(sbi, file_id);

	ppc_sweep_note_use(sbi);
	if (!inode)
		return ERR_PTR(-ESTALE);
	if (!S_ISREG(inode->i_mode)) {
		iput(inode);
		return ERR_PTR(-EISDIR);
	}
	return inode;
}

static bool ppc_valid_range(u64 offset, u64 length)
{
	return offset <= MAX_LFS_FILESIZE && length <= MAX_LFS_FILESIZE - offset;
}

static int ppc_ioc_load(struct ppc_sb *sbi, struct ppc_devfile *df, void *arg)
{
	struct ppc_load *req = arg;
	struct mem_cgroup *memcg;
	struct inode *inode;
	int err;

	if ((req->flags & ~PPC_LOAD_WAIT) || req->pad || req->pad2 ||
	    memchr_inv(req->reserved, 0, sizeof(req->reserved)) ||
	    (req->cancel_slot >= PPC_CANCEL_SLOTS && req->cancel_slot != PPC_CANCEL_NONE) ||
	    !req->length || !ppc_valid_range(req->offset, req->length))
		return -EINVAL;
	inode = ppc_regular(sbi, req->file_id);
	if (IS_ERR(inode))
		return PTR_ERR(inode);
	err = ppc_charge_get(df, req->charge, &memcg);
	if (!err) {
		err = ppc_load_range(sbi, inode, req, memcg,
				     req->cancel_slot == PPC_CANCEL_NONE ? NULL :
				     &df->cancel[req->cancel_slot]);
		ppc_charge_put(memcg);
	}
	iput(inode);
	return err;
}

static int ppc_ioc_cancel(struct ppc_sb *sbi, struct ppc_devfile *df, void *arg)
{
	struct ppc_cancel *req = arg;
	s64 old;

	if (req->slot >= PPC_CANCEL_SLOTS || req->pad || req->generation > S64_MAX)
		return -EINVAL;
	old = atomic64_read(&df->cancel[req->slot]);
	while (old < (s64)req->generation &&
	       !atomic64_try_cmpxchg(&df->cancel[req->slot], &old, req->generation))
		;
	return 0;
}

static int ppc_ioc_evict(struct ppc_sb *sbi, struct ppc_devfile *df, void *arg)
{
	const u32 known = PPC_EVICT_UNMAP | PPC_EVICT_EVEN_LOCKED | PPC_EVICT_DRAIN;
	struct ppc_evict *req = arg;
	struct inode *inode;
	int err;

	if ((req->flags & ~known) || req->pad ||
	    memchr_inv(req->reserved, 0, sizeof(req->reserved)) ||
	    !ppc_valid_range(req->offset, req->length))
		return -EINVAL;
	inode = ppc_regular(sbi, req->file_id);
	if (IS_ERR(inode))
		return PTR_ERR(inode);
	err = ppc_evict_range(sbi, inode, req);
	iput(inode);
	return err;
}

static int ppc_ioc_resident(struct ppc_sb *sbi, struct ppc_devfile *df, void *arg)
{
	struct ppc_resident *req = arg;
	struct inode *inode;
	int err;

	if (!ppc_valid_range(req->offset, req->length) || req->length > (1ULL << 40))
		return -EINVAL;
	inode = ppc_regular(sbi, req->file_id);
	if (IS_ERR(inode))
		return PTR_ERR(inode);
	err = ppc_resident_range(sbi, inode, req);
	iput(inode);
	return err;
}

static int ppc_ioc_charge(struct ppc_sb *sbi, struct ppc_devfile *df, void *arg)
{
	struct ppc_charge *req = arg;

	if ((req->flags & ~PPC_CHARGE_RELEASE) || req->pad)
		return -EINVAL;
	if (req->flags & PPC_CHARGE_RELEASE)
		return ppc_charge_release(df, req->handle);
	return ppc_charge_add(df, req);
}

static int ppc_ioc_file_mode(struct ppc_sb *sbi, struct ppc_devfile *df, void *arg)
{
	struct ppc_file_mode *req = arg;
	struct inode *inode;

	if (req->mode > PPC_FILE_NATIVE || req->pad)
		return -EINVAL;
	inode = ppc_regular(sbi, req->file_id);
	if (IS_ERR(inode))
		return PTR_ERR(inode);
	ppc_set_file_mode(sbi, inode, req->mode == PPC_FILE_NATIVE);
	iput(inode);
	return 0;
}

static const struct ppc_ioctl {
	unsigned int cmd;
	int (*handler)(struct ppc_sb *sbi, struct ppc_devfile *df, void *arg);
} ppc_ioctls[] = {
	{ PPC_IOC_INFO,		ppc_ioc_info },
	{ PPC_IOC_ATTACH,	ppc_ioc_attach },
	{ PPC_IOC_DETACH,	ppc_ioc_detach },
	{ PPC_IOC_FILE,		ppc_ioc_file },
	{ PPC_IOC_LOOKUP,	ppc_ioc_lookup },
	{ PPC_IOC_LOAD,		ppc_ioc_load },
	{ PPC_IOC_CANCEL,	ppc_ioc_cancel },
	{ PPC_IOC_EVICT,	ppc_ioc_evict },
	{ PPC_IOC_RESIDENT,	ppc_ioc_resident },
	{ PPC_IOC_CHARGE,	ppc_ioc_charge },
	{ PPC_IOC_FILE_MODE,	ppc_ioc_file_mode },
	{ PPC_IOC_FLUSH,	ppc_ioc_flush },
};

static long ppc_ioctl_run(struct ppc_devfile *df, const struct ppc_ioctl *entry, void *arg)
{
	struct ppc_dev *dev = df->dev;
	struct ppc_session *session = ppc_devfile_session(df);
	long err = -ENODEV;

	down_read(&dev->unmount_rwsem);
	if (session)
		ppc_session_renew(session);
	if (dev->sbi && !READ_ONCE(dev->dying))
		err = entry->handler(dev->sbi, df, arg);
	if (session)
		ppc_session_renew(session);
	up_read(&dev->unmount_rwsem);
	return err;
}

static enum ppc_stat ppc_refusal(long err)
{
	switch (err) {
	case -EINVAL:
		return PPC_STAT_REFUSED_INVALID;
	case -ENOTTY:
		return PPC_STAT_REFUSED_UNKNOWN;
	case -EFAULT:
		return PPC_STAT_REFUSED_FAULT;
	case -ESTALE:
		return PPC_STAT_REFUSED_STALE;
	case -ENOENT:
	case -ENOTDIR:
	case -EISDIR:
	case -ELOOP:
	case -ENAMETOOLONG:
		return PPC_STAT_REFUSED_NAME;
	case -EBUSY:
	case -EAGAIN:
		return PPC_STAT_REFUSED_BUSY;
	case -ENOTCONN:
		return PPC_STAT_REFUSED_DETACHED;
	case -EBADF:
		return PPC_STAT_REFUSED_HANDLE;
	case -ENOSPC:
		return PPC_STAT_REFUSED_LIMIT;
	case -ENOMEM:
		return PPC_STAT_REFUSED_NOMEM;
	case -EOPNOTSUPP:
		return PPC_STAT_REFUSED_UNSUPPORTED;
	default:
		return PPC_STAT_REFUSED_OTHER;
	}
}

/* Refusals after the unmount are not counted: the counters are gone. */
static long ppc_count_refusal(struct ppc_devfile *df, long err)
{
	struct ppc_dev *dev = df->dev;

	if (!err)
		return 0;
	down_read(&dev->unmount_rwsem);
	if (dev->sbi)
		ppc_stat_add(dev->sbi, ppc_refusal(err), 1);
	up_read(&dev->unmount_rwsem);
	return err;
}

/**
 * ppc_dev_ioctl - ->unlocked_ioctl of the device
 * @file: open device
 * @cmd: PPC_IOC_*
 * @user: pointer to its struct
 *
 * Return: 0 or -errno; -ENODEV after the unmount, -ENOTTY for anything unknown
 */
long ppc_dev_ioctl(struct file *file, unsigned int cmd, unsigned long user)
{
	void __user *uarg = (void __user *)user;
	const struct ppc_ioctl *entry = NULL;
	unsigned int size = _IOC_SIZE(cmd);
	void *arg = NULL;
	long err;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(ppc_ioctls); i++) {
		if (ppc_ioctls[i].cmd == cmd)
			entry = &ppc_ioctls[i];
	}
	if (!entry)
		return ppc_count_refusal(file->private_data, -ENOTTY);
	if (size) {
		arg = kzalloc(size, GFP_KERNEL);
		if (!arg)
			return ppc_count_refusal(file->private_data, -ENOMEM);
	}
	err = -EFAULT;
	if ((_IOC_DIR(cmd) & _IOC_WRITE) && copy_from_user(arg, uarg, size))
		goto out;
	err = ppc_ioctl_run(file->private_data, entry, arg);
	if (!err && (_IOC_DIR(cmd) & _IOC_READ) && copy_to_user(uarg, arg, size))
		err = -EFAULT;
out:
	kfree(arg);
	return ppc_count_refusal(file->private_data, err);
}
