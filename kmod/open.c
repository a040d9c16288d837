// SPDX-License-Identifier: GPL-2.0-only
/*
 * Opens lower files, and owns the life of struct ppc_open.
 */
#include <linux/fsnotify.h>
#include <linux/module.h>
#include <linux/slab.h>

#include "compat/magic.h"
#include "ppc.h"

static struct kmem_cache *ppc_open_cache;
struct workqueue_struct *ppc_long_wq;	/* path_put() of pins; the sweep */

static const struct cred *ppc_lower_cred(const struct ppc_sb *sbi)
{
	return sbi->caller_cred ? current_cred() : sbi->cred;
}

/*
 * Whether the file's own path is on our mount.  With an overlay on top it is
 * the overlay's, and the overlay's ->d_real() would get our inode.
 */
static bool ppc_own_path(const struct file *file)
{
	return file->f_path.dentry->d_sb == file_inode(file)->i_sb;
}

static int ppc_lower_flags(const struct file *file)
{
	unsigned int drop = O_CREAT | O_EXCL | O_NOCTTY | O_TRUNC | O_DIRECT;

	return (file->f_flags & ~drop) | O_LARGEFILE | PPC_OPEN_NONOTIFY;
}

/*
 * No other task has the file yet.  O_NOATIME is not passed to the open: FUSE
 * would pass it to a server that may not ask for it.
 */
static struct file *ppc_nonotify(struct file *lower)
{
	if (!IS_ERR(lower)) {
		lower->f_flags |= O_NOATIME;
		ppc_set_notify(lower, PPC_NOTIFY_NONE);
	}
	return lower;
}

/*
 * Security modules record the opener and its rights at the open.  If asked at a
 * later use, they would judge the caller by a disconnected path.
 */
static struct file *ppc_dentry_open(const struct path *path, int flags, const struct cred *cred)
{
	const struct cred *old = override_creds(cred);
	struct file *lower = ppc_nonotify(dentry_open(path, flags, cred));

	revert_creds(old);
	return lower;
}

/* NFS returns EOPENSTALE for the path walk to retry; there is no path walk here. */
static struct file *ppc_no_openstale(struct file *lower)
{
	return lower == ERR_PTR(-EOPENSTALE) ? ERR_PTR(-ESTALE) : lower;
}

/**
 * ppc_lower_path - the lower path of an open file or directory
 * @file: ours
 * @real: out; valid while @file is open and *@held is not put
 * @held: out; a dentry to be put, or NULL
 *
 * Return: 0, or -ESTALE when no lower name is cached any more
 */
int ppc_lower_path(const struct file *file, struct path *real, struct dentry **held)
{
	real->mnt = PPC_SB(file_inode(file)->i_sb)->lower_mnt;
	*held = NULL;
	if (PPC_BACKING_FILES || ppc_own_path(file)) {
		real->dentry = PPC_D(file->f_path.dentry);
	} else {
		*held = ppc_lower_alias(file_inode(file));
		real->dentry = *held;
	}
	return real->dentry ? 0 : -ESTALE;
}

/*
 * The lower file shows the user's path (/proc/PID/maps, audit), and through
 * that path it holds our mount as long as a mapping of it lives.  If the path
 * is not ours, the lower path is shown and po->pin holds the mount.
 *
 * ->permission has checked the caller's credentials; the open itself uses the
 * mounter's, because security modules would see a disconnected path.
 */
static struct file *ppc_open_lower(struct ppc_open *po, struct file *file, const struct path *real)
{
	const struct cred *cred = ppc_lower_cred(po->sbi), *old;
	int flags = ppc_lower_flags(file);
	struct file *lower;
	fmode_t notify;

	if (PPC_BACKING_FILES || ppc_own_path(file)) {
		/* in ->open(): no other task has the file yet */
		notify = ppc_set_notify(file, PPC_NOTIFY_NONE);
		old = override_creds(cred);
		lower = backing_file_open(file, flags, real, cred);
		revert_creds(old);
		ppc_set_notify(file, notify);
		return ppc_nonotify(lower);
	}
	lower = ppc_dentry_open(real, flags, cred);
	if (!IS_ERR(lower)) {
		po->pin = file->f_path;
		path_get(&po->pin);
		po->pinned = true;
	}
	return lower;
}

/* Asks the listeners, then opens. */
static int ppc_open_asked(struct ppc_open *po, struct file *file)
{
	struct path real;
	struct dentry *held;
	int err = ppc_lower_path(file, &real, &held);

	if (err)
		return err;
	err = ppc_ask_open(file, real.dentry, &po->marks);
	if (!err) {
		po->lower = ppc_open_lower(po, file, &real);
		err = PTR_ERR_OR_ZERO(po->lower);
	}
	if (held)
		dput(held);
	return err;
}

/**
 * ppc_open_lower_dir - the lower directory of an open directory
 * @file: ours
 *
 * Context: may sleep.
 * Return: a file or ERR_PTR
 */
struct file *ppc_open_lower_dir(struct file *file)
{
	struct ppc_sb *sbi = PPC_SB(file_inode(file)->i_sb);
	struct path real = { .mnt = sbi->lower_mnt, .dentry = PPC_D(file_dentry(file)) };
	u32 marks;
	int err = ppc_ask_open(file, real.dentry, &marks);

	if (err)
		return ERR_PTR(err);
	return ppc_no_openstale(ppc_dentry_open(&real, ppc_lower_flags(file),
						ppc_lower_cred(sbi)));
}

/**
 * ppc_lower_alias - some lower dentry of one of our inodes
 * @inode: ours
 *
 * Return: a referenced dentry, a hashed one if possible; NULL when no name is
 * cached
 */
struct dentry *ppc_lower_alias(struct inode *inode)
{
	struct dentry *alias, *lower = NULL;

	spin_lock(&inode->i_lock);
	for_each_alias(alias, inode) {
		if (PPC_D(alias) && (!lower || d_unhashed(lower)))
			lower = PPC_D(alias);
	}
	dget(lower);
	spin_unlock(&inode->i_lock);
	return lower;
}

/**
 * ppc_open_private - a lower file for the loader and the evictor alone
 * @sbi: mount
 * @inode: ours, regular
 *
 * The file has its own read-ahead state and holds only the private clone mount.
 * Its open asks no listener and breaks no lease, so neither can delay the
 * loader or an unmount.
 *
 * Context: may sleep.
 * Return: a file, or ERR_PTR: -ESTALE when no name of the file is cached,
 * -EAGAIN when it has a lease that must be broken first
 */
struct file *ppc_open_private(struct ppc_sb *sbi, struct inode *inode)
{
	struct path real = { .mnt = sbi->lower_mnt, .dentry = ppc_lower_alias(inode) };
	const struct cred *old;
	struct file *lower;

	if (!real.dentry)
		return ERR_PTR(-ESTALE);
	old = override_creds(sbi->cred);
	lower = ppc_nonotify(ppc_open_nonotify(sbi->nonotify_file, &real,
					       O_RDONLY | O_LARGEFILE | O_NONBLOCK, sbi->cred));
	revert_creds(old);
	dput(real.dentry);
	return ppc_no_openstale(lower);
}

/* Sends OPEN or CLOSE if the consumer wants them. */
void ppc_open_event(struct ppc_open *po, u8 kind)
{
	struct ppc_sb *sbi = po->sbi;
	struct ppc_event ev = { .kind = kind };

	if (!(READ_ONCE(sbi->mode) & PPC_MODE_OPENCLOSE))
		return;
	ev.file_id = PPC_I(po->inode)->file_id;
	ev.open_id = po->open_id;
	ev.flags = po->direct ? PPC_EVF_DIRECT : 0;
	if (kind == PPC_EV_OPEN) {
		ev.length = min_t(u64, PAGE_ALIGN(i_size_read(PPC_I(po->inode)->lower)),
				  U32_MAX & PAGE_MASK);
		po->open_reported = ppc_upc_emit_limited(sbi, &ev);
	} else if (po->open_reported) {
		/* a consumer that was sent OPEN keeps state until CLOSE */
		ppc_upc_emit(sbi, &ev, true);
	} else {
		ppc_upc_emit_limited(sbi, &ev);
	}
}

/**
 * ppc_access_flush - queue the pending access of an open file
 * @po: open file
 *
 * Context: any that may take a spinlock.
 */
void ppc_access_flush(struct ppc_open *po)
{
	struct ppc_event out;

	spin_lock(&po->events.lock);
	out = po->events.pending;
	po->events.pending.length = 0;
	spin_unlock(&po->events.lock);
	if (out.length)
		ppc_upc_queue(po->sbi, &out);
}

/* Ends a pending access at release, when no other task has the file. */
static void ppc_access_end(struct ppc_open *po)
{
	if (!list_empty_careful(&po->events.link)) {
		spin_lock(&po->sbi->pending_lock);
		list_del_init(&po->events.link);
		spin_unlock(&po->sbi->pending_lock);
	}
	if (po->events.pending.length)
		ppc_access_flush(po);
}

static void ppc_open_free_work(struct work_struct *work)
{
	struct ppc_open *po = container_of(work, struct ppc_open, free_work);

	path_put(&po->pin);
	kmem_cache_free(ppc_open_cache, po);
}

/*
 * Sets what every free leaves in its initial state.  Nothing is zeroed at an
 * open: most fields belong to mappings and events, of which most files have none.
 */
static void ppc_open_once(void *mem)
{
	struct ppc_open *po = mem;

	spin_lock_init(&po->events.lock);
	INIT_LIST_HEAD(&po->events.link);
	po->events.pending.length = 0;
}

static struct ppc_open *ppc_open_alloc(struct inode *inode)
{
	struct ppc_sb *sbi = PPC_SB(inode->i_sb);
	struct ppc_open *po = kmem_cache_alloc(ppc_open_cache, GFP_KERNEL);

	if (!po)
		return NULL;
	refcount_set(&po->ref, 1);
	po->open_id = atomic_inc_return(&sbi->next_open_id);
	po->sbi = sbi;
	po->list = ppc_open_list_of(sbi, inode);
	po->inode = inode;
	po->marks = 0;
	po->direct = false;
	po->pinned = false;
	po->denies_write = false;
	po->open_reported = false;
	po->ra = (struct ppc_open_ra) {};
	po->history = (struct ppc_open_history) {
		.urgent_page = -PPC_URGENT_PAGES,
		.beacon_page = ULONG_MAX,
		.bypass = sbi->caller_cred ? PPC_BYPASS_POSSIBLE : 0,
	};
	po->events.beacons = 0;
	po->events.beacon_next = 0;
	po->events.beacon_last = 0;
	po->map.lower = NULL;
	return po;
}

void ppc_open_get(struct ppc_open *po)
{
	refcount_inc(&po->ref);
}

/* False: the last reference is gone. */
bool ppc_open_try_get(struct ppc_open *po)
{
	return refcount_inc_not_zero(&po->ref);
}

/*
 * While a program runs from a file, the VFS denies writing to our inode only.
 * A user with write access below could put code into a set-id program while it
 * runs.  So where programs get rights from their files, the lower file is
 * denied writing too, until the last mapping is gone.
 */
static int ppc_deny_write(struct ppc_open *po, const struct file *file)
{
	int err;

	if (po->sbi->nosuid || !(file->f_flags & (__force unsigned int)__FMODE_EXEC))
		return 0;
	err = deny_write_access(po->lower);
	po->denies_write = !err;
	return err;
}

static void ppc_allow_write(struct ppc_open *po)
{
	if (po->denies_write)
		allow_write_access(po->lower);
}

static void ppc_open_list_del(struct ppc_open *po)
{
	struct ppc_open_list *list = po->list;

	spin_lock(&list->lock);
	list_del(&po->ra.link);
	WRITE_ONCE(list->nr, list->nr - 1);
	spin_unlock(&list->lock);
	atomic_dec(&PPC_I(po->inode)->nr_open);
}

/**
 * ppc_open_put - drop a reference of the upper file or of a VMA
 * @po: may be freed
 *
 * The lower file is put last: its path keeps po->inode and the super block.
 *
 * Context: may run under mmap_lock, so paths are put by ppc_long_wq.
 */
void ppc_open_put(struct ppc_open *po)
{
	struct file *lower = po->lower;

	if (!refcount_dec_and_test(&po->ref))
		return;
	ppc_allow_write(po);
	ppc_access_end(po);
	ppc_open_event(po, PPC_EV_CLOSE);
	ppc_open_list_del(po);
	ppc_sweep_note_use(po->sbi);
	if (po->pinned) {
		INIT_WORK(&po->free_work, ppc_open_free_work);
		queue_work(ppc_long_wq, &po->free_work);
	} else {
		kmem_cache_free(ppc_open_cache, po);
	}
	fput(lower);
}

/**
 * ppc_shares_mapping - whether our open files may use the lower mapping
 * @lower: lower super block
 *
 * With it, cachestat, readahead(2) and sync_file_range see the lower cache.
 * But a file system that reads folios of a mapping itself (erofs from an image)
 * passes our file to the lower file system.  Block-device file systems ignore
 * its private data; FUSE, NFS and their like would take it for their own.  The
 * kernel recognises tmpfs files by their mapping, and would look for seals in
 * front of our inode (F_GET_SEALS, mmap(), udmabuf).
 */
bool ppc_shares_mapping(const struct super_block *lower)
{
	if (lower->s_type == &ppc_fs_type)
		return PPC_SB(lower)->shares_mapping;
	return (lower->s_type->fs_flags & FS_REQUIRES_DEV) && lower->s_magic != FUSE_SUPER_MAGIC;
}

/**
 * ppc_open_create - open a lower file and make its struct ppc_open
 * @inode: ours
 * @file: the user's
 *
 * Context: may sleep.
 * Return: an open file or ERR_PTR
 */
struct ppc_open *ppc_open_create(struct inode *inode, struct file *file)
{
	struct ppc_open *po = ppc_open_alloc(inode);
	int err;

	if (!po)
		return ERR_PTR(-ENOMEM);
	err = ppc_open_asked(po, file);
	if (err) {
		kmem_cache_free(ppc_open_cache, po);
		return ERR_PTR(err);
	}
	err = ppc_deny_write(po, file);
	if (err) {
		ppc_open_abort(po);
		return ERR_PTR(err);
	}
	return po;
}

/* Undoes ppc_open_create(): no other task knows the open file yet. */
void ppc_open_abort(struct ppc_open *po)
{
	ppc_allow_write(po);
	fput(po->lower);
	if (po->pinned)
		path_put(&po->pin);
	kmem_cache_free(ppc_open_cache, po);
}

int ppc_open_cache_init(void)
{
	ppc_open_cache = kmem_cache_create("ppc_open", sizeof(struct ppc_open), 0, SLAB_ACCOUNT,
					   ppc_open_once);
	if (!ppc_open_cache)
		return -ENOMEM;
	ppc_long_wq = alloc_workqueue("ppc_long", WQ_UNBOUND, 0);
	if (!ppc_long_wq) {
		kmem_cache_destroy(ppc_open_cache);
		return -ENOMEM;
	}
	return 0;
}

void ppc_open_cache_exit(void)
{
	/* waits for the last path_put() */
	destroy_workqueue(ppc_long_wq);
	kmem_cache_destroy(ppc_open_cache);
}
