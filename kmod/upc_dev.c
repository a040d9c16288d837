// SPDX-License-Identifier: GPL-2.0-only
/*
 * /dev/ppcN: open, poll, mmap and the table of ioctls; all argument checking
 * and copying.
 *
 * struct ppc_dev is counted apart from the super block: it lives as long as
 * somebody has the device open, and dev->sbi is NULL from the unmount on.
 * Each ioctl holds dev->alive for reading, the unmount takes it for writing:
 *
 *	ioctl				unmount
 *	down_read(alive)		dying = true
 *	sbi = dev->sbi or -ENODEV	down_write(alive)	waits
 *	LOAD looks at dying		dev->sbi = NULL
 *	up_read(alive)			up_write(alive)
 */
#include <linux/cdev.h>
#include <linux/cgroup.h>
#include <linux/device.h>
#include <linux/idr.h>
#include <linux/log2.h>
#include <linux/memcontrol.h>
#include <linux/module.h>
#include <linux/poll.h>
#include <linux/rwsem.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "ppc.h"

#define PPC_MAX_CHARGES		1024

struct ppc_dev {
	struct device dev;
	struct cdev cdev;
	struct rw_semaphore alive;
	struct ppc_sb *sbi;		/* under alive; NULL after unmount */
	bool dying;
	wait_queue_head_t gone;		/* woken at unmount */
};

/* One open of the device. */
struct ppc_devfile {
	struct ppc_dev *dev;
	struct mutex lock;		/* attach, detach, lease expiry */
	struct ppc_session *session;	/* set once under lock; freed at release */
	bool attached;			/* under lock: the lease is watched */
	bool expired;			/* written under lock; poll() reads it */
	struct delayed_work lease_work;
	struct xarray charges;		/* handle -> css, referenced */
};

static dev_t ppc_first_dev;
static DEFINE_IDA(ppc_minors);

static char *ppc_devnode(PPC_DEVNODE_CONST struct device *dev, umode_t *mode)
{
	if (mode)
		*mode = 0600;
	return NULL;
}

static struct class ppc_class = {
	.name		= "ppc",
	.devnode	= ppc_devnode,
};

/* -------------------------------------------------------------- attachment */

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

static unsigned long ppc_lease_period(const struct ppc_session *session)
{
	return msecs_to_jiffies(max(ppc_session_lease_ms(session) / 8, 20U));
}

static void ppc_lease_work(struct work_struct *work)
{
	struct ppc_devfile *df = container_of(to_delayed_work(work), struct ppc_devfile, lease_work);
	struct ppc_dev *dev = df->dev;
	bool again = false;

	down_read(&dev->alive);
	mutex_lock(&df->lock);
	if (dev->sbi && df->attached) {
		again = !ppc_session_stuck(df->session);
		if (!again) {
			df->attached = false;
			/* before the wake-up in ppc_detach(): poll() reports it */
			WRITE_ONCE(df->expired, true);
			ppc_detach(dev->sbi, df->session, true);
		}
	}
	mutex_unlock(&df->lock);
	up_read(&dev->alive);
	if (again)
		schedule_delayed_work(&df->lease_work, ppc_lease_period(df->session));
}

static int ppc_ioc_attach(struct ppc_sb *sbi, struct ppc_devfile *df, void *arg)
{
	struct ppc_attach *req = arg;
	int err = 0;

	if (!ppc_valid_attach(req))
		return -EINVAL;
	mutex_lock(&df->lock);
	if (!df->session) {
		struct ppc_session *session =
			ppc_session_create(READ_ONCE(sbi->opts.queue_events));

		if (IS_ERR(session))
			err = PTR_ERR(session);
		else
			/* pairs with the acquire in mmap and poll */
			smp_store_release(&df->session, session);
	}
	if (!err)
		err = ppc_attach(sbi, df->session, req);
	if (!err) {
		WRITE_ONCE(df->expired, false);
		df->attached = true;
		ppc_session_describe(df->session, req);
		mod_delayed_work(system_wq, &df->lease_work, ppc_lease_period(df->session));
	}
	mutex_unlock(&df->lock);
	return err;
}

static int ppc_ioc_detach(struct ppc_sb *sbi, struct ppc_devfile *df, void *arg)
{
	int err = 0;

	mutex_lock(&df->lock);
	df->attached = false;
	if (!df->session || !ppc_detach(sbi, df->session, false))
		err = -ENOTCONN;
	mutex_unlock(&df->lock);
	return err;
}

/* -------------------------------------------------------------- the others */

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
	struct ppc_session *session = READ_ONCE(df->session);
	struct ppc_info *info = arg;

	info->version = PPC_UAPI_VERSION;
	info->caps = PPC_BACKING_FILES ? PPC_CAP_BACKING_FILE : 0;
#if defined(PPC_HAVE_ACTIVE_MEMCG) && defined(CONFIG_MEMCG)
	info->caps |= PPC_CAP_CHARGE;
#endif
	info->state = ppc_state(sbi);
	info->page_bytes = PAGE_SIZE;
	info->dev_major = MAJOR(sbi->sb->s_dev);
	info->dev_minor = MINOR(sbi->sb->s_dev);
	info->window_bytes = READ_ONCE(sbi->window_pages) << PAGE_SHIFT;
	info->beacon_bytes = 1U << (READ_ONCE(sbi->beacon_shift) + PAGE_SHIFT);
	info->lease_ms = session ? ppc_session_lease_ms(session) : 0;
	info->nr_open = READ_ONCE(sbi->nr_open);
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

/* The regular file of an id, referenced. */
static struct inode *ppc_regular(struct ppc_sb *sbi, u64 file_id)
{
	struct inode *inode = ppc_ilookup(sbi, file_id);

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

#if defined(PPC_HAVE_ACTIVE_MEMCG) && defined(CONFIG_MEMCG)
static int ppc_ioc_charge(struct ppc_sb *sbi, struct ppc_devfile *df, void *arg)
{
	struct cgroup_subsys_state *css;
	struct ppc_charge *req = arg;
	struct cgroup *cgrp;
	int err;

	if (req->flags || req->pad)
		return -EINVAL;
	cgrp = cgroup_get_from_fd(req->cgroup_fd);
	if (IS_ERR(cgrp))
		return PTR_ERR(cgrp);
	css = cgroup_get_e_css(cgrp, &memory_cgrp_subsys);
	cgroup_put(cgrp);
	if (!css)
		return -EOPNOTSUPP;
	err = xa_alloc(&df->charges, &req->handle, css, XA_LIMIT(1, PPC_MAX_CHARGES), GFP_KERNEL);
	if (err) {
		css_put(css);
		return err == -EBUSY ? -ENOSPC : err;
	}
	return 0;
}

/* Handles live as long as the descriptor, which the ioctl holds. */
static int ppc_memcg_of(struct ppc_devfile *df, u32 handle, struct mem_cgroup **memcg)
{
	struct cgroup_subsys_state *css;

	*memcg = NULL;
	if (!handle)
		return 0;
	css = xa_load(&df->charges, handle);
	if (!css)
		return -EBADF;
	*memcg = mem_cgroup_from_css(css);
	return 0;
}

static void ppc_charges_free(struct ppc_devfile *df)
{
	struct cgroup_subsys_state *css;
	unsigned long handle;

	xa_for_each(&df->charges, handle, css)
		css_put(css);
	xa_destroy(&df->charges);
}
#else
static int ppc_ioc_charge(struct ppc_sb *sbi, struct ppc_devfile *df, void *arg)
{
	return -EOPNOTSUPP;
}

static int ppc_memcg_of(struct ppc_devfile *df, u32 handle, struct mem_cgroup **memcg)
{
	*memcg = NULL;
	return handle ? -EBADF : 0;
}

static void ppc_charges_free(struct ppc_devfile *df)
{
}
#endif

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
	err = ppc_memcg_of(df, req->charge, &memcg);
	if (err)
		return err;
	inode = ppc_regular(sbi, req->file_id);
	if (IS_ERR(inode))
		return PTR_ERR(inode);
	err = ppc_load_range(sbi, inode, req, memcg);
	iput(inode);
	return err;
}

static int ppc_ioc_cancel(struct ppc_sb *sbi, struct ppc_devfile *df, void *arg)
{
	struct ppc_cancel *req = arg;
	s64 old;

	if (req->slot >= PPC_CANCEL_SLOTS || req->pad || req->generation > S64_MAX)
		return -EINVAL;
	old = atomic64_read(&sbi->cancel[req->slot]);
	while (old < (s64)req->generation &&
	       !atomic64_try_cmpxchg(&sbi->cancel[req->slot], &old, req->generation))
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
};

static long ppc_ioctl_run(struct ppc_devfile *df, const struct ppc_ioctl *entry, void *arg)
{
	struct ppc_dev *dev = df->dev;
	struct ppc_session *session = READ_ONCE(df->session);
	long err = -ENODEV;

	down_read(&dev->alive);
	if (session)
		ppc_session_renew(session);
	if (dev->sbi)
		err = entry->handler(dev->sbi, df, arg);
	if (session)
		ppc_session_renew(session);
	up_read(&dev->alive);
	return err;
}

static long ppc_dev_ioctl(struct file *file, unsigned int cmd, unsigned long user)
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
		return -ENOTTY;
	if (size) {
		arg = kzalloc(size, GFP_KERNEL);
		if (!arg)
			return -ENOMEM;
	}
	err = -EFAULT;
	if ((_IOC_DIR(cmd) & _IOC_WRITE) && copy_from_user(arg, uarg, size))
		goto out;
	err = ppc_ioctl_run(file->private_data, entry, arg);
	if (!err && (_IOC_DIR(cmd) & _IOC_READ) && copy_to_user(uarg, arg, size))
		err = -EFAULT;
out:
	kfree(arg);
	return err;
}

/* --------------------------------------------------------- file operations */

static int ppc_dev_open(struct inode *inode, struct file *file)
{
	struct ppc_dev *dev = container_of(inode->i_cdev, struct ppc_dev, cdev);
	struct ppc_devfile *df;

	if (!capable(CAP_SYS_ADMIN))
		return -EPERM;
	if (READ_ONCE(dev->dying))
		return -ENODEV;
	df = kzalloc(sizeof(*df), GFP_KERNEL);
	if (!df)
		return -ENOMEM;
	df->dev = dev;
	get_device(&dev->dev);
	mutex_init(&df->lock);
	xa_init_flags(&df->charges, XA_FLAGS_ALLOC1);
	INIT_DELAYED_WORK(&df->lease_work, ppc_lease_work);
	file->private_data = df;
	return nonseekable_open(inode, file);
}

static int ppc_dev_release(struct inode *inode, struct file *file)
{
	struct ppc_devfile *df = file->private_data;
	struct ppc_dev *dev = df->dev;

	cancel_delayed_work_sync(&df->lease_work);
	if (df->session) {
		down_read(&dev->alive);
		if (dev->sbi)
			ppc_detach(dev->sbi, df->session, false);
		up_read(&dev->alive);
		/* events that were on their way to its rings */
		synchronize_rcu();
		ppc_session_free(df->session);
	}
	ppc_charges_free(df);
	put_device(&dev->dev);
	kfree(df);
	return 0;
}

static __poll_t ppc_dev_poll(struct file *file, poll_table *wait)
{
	struct ppc_devfile *df = file->private_data;
	struct ppc_session *session = smp_load_acquire(&df->session);
	__poll_t events = 0;

	poll_wait(file, &df->dev->gone, wait);
	if (session) {
		poll_wait(file, ppc_session_wait(session), wait);
		if (ppc_session_pending(session))
			events |= EPOLLIN | EPOLLRDNORM;
		if (READ_ONCE(df->expired))
			events |= EPOLLERR | EPOLLHUP;
	}
	if (READ_ONCE(df->dev->dying))
		events |= EPOLLHUP;
	return events;
}

static int ppc_dev_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct ppc_devfile *df = file->private_data;
	struct ppc_session *session = smp_load_acquire(&df->session);

	return session ? ppc_session_mmap(session, vma) : -ENXIO;
}

static const struct file_operations ppc_dev_ops = {
	.owner		= THIS_MODULE,
	.open		= ppc_dev_open,
	.release	= ppc_dev_release,
	.unlocked_ioctl	= ppc_dev_ioctl,
	.compat_ioctl	= ppc_dev_ioctl,	/* every struct has the same layout */
	.poll		= ppc_dev_poll,
	.mmap		= ppc_dev_mmap,
};

/* ------------------------------------------------------- one per mount */

static void ppc_dev_free(struct device *device)
{
	struct ppc_dev *dev = container_of(device, struct ppc_dev, dev);

	ida_free(&ppc_minors, MINOR(device->devt));
	kfree(dev);
}

/**
 * ppc_dev_create - the device of a mount
 * @sbi: mount, complete
 *
 * Context: may sleep.
 * Return: 0 or -errno
 */
int ppc_dev_create(struct ppc_sb *sbi)
{
	struct ppc_dev *dev = kzalloc(sizeof(*dev), GFP_KERNEL);
	int minor, err;

	if (!dev)
		return -ENOMEM;
	minor = ida_alloc_max(&ppc_minors, MINORMASK, GFP_KERNEL);
	if (minor < 0) {
		kfree(dev);
		return minor;
	}
	device_initialize(&dev->dev);
	dev->dev.class = &ppc_class;
	dev->dev.devt = MKDEV(MAJOR(ppc_first_dev), minor);
	dev->dev.release = ppc_dev_free;
	init_rwsem(&dev->alive);
	init_waitqueue_head(&dev->gone);
	dev->sbi = sbi;
	cdev_init(&dev->cdev, &ppc_dev_ops);
	dev->cdev.owner = THIS_MODULE;
	err = dev_set_name(&dev->dev, "ppc%d", minor);
	if (!err) {
		sbi->dev = dev;
		err = cdev_device_add(&dev->cdev, &dev->dev);
	}
	if (err) {
		sbi->dev = NULL;
		put_device(&dev->dev);
	}
	return err;
}

/**
 * ppc_dev_shutdown - the mount goes; open descriptors get -ENODEV and POLLHUP
 * @sbi: mount
 *
 * Context: may sleep; waits for running ioctls.
 */
void ppc_dev_shutdown(struct ppc_sb *sbi)
{
	struct ppc_dev *dev = sbi->dev;

	if (!dev)
		return;
	WRITE_ONCE(dev->dying, true);
	cdev_device_del(&dev->cdev, &dev->dev);
	down_write(&dev->alive);
	ppc_detach(sbi, NULL, false);
	dev->sbi = NULL;
	up_write(&dev->alive);
	wake_up_interruptible_all(&dev->gone);
}

/* The mount's own reference; after this nothing looks at sbi->dev. */
void ppc_dev_put(struct ppc_sb *sbi)
{
	if (sbi->dev)
		put_device(&sbi->dev->dev);
}

bool ppc_dev_dying(const struct ppc_sb *sbi)
{
	return READ_ONCE(sbi->dev->dying);
}

int ppc_dev_minor(const struct ppc_sb *sbi)
{
	return MINOR(sbi->dev->dev.devt);
}

int ppc_dev_class_init(void)
{
	int err = class_register(&ppc_class);

	if (err)
		return err;
	err = alloc_chrdev_region(&ppc_first_dev, 0, MINORMASK + 1, "ppc");
	if (err)
		class_unregister(&ppc_class);
	return err;
}

void ppc_dev_class_exit(void)
{
	unregister_chrdev_region(ppc_first_dev, MINORMASK + 1);
	class_unregister(&ppc_class);
	ida_destroy(&ppc_minors);
}
