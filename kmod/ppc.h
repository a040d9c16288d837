/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the source files of the module offer each other, grouped by file.
 * Private structures are in ppc_types.h.
 */
#ifndef PPC_H
#define PPC_H

#include <linux/fs.h>
#include <linux/hash.h>
#include <linux/jump_label.h>
#include <linux/mm.h>
#include <linux/percpu.h>

#include "ppc_types.h"

#define PPC_SUPER_MAGIC		0x50504331	/* "PPC1" */
#define PPC_RING_ENTRIES_MIN	64
#define PPC_QUEUE_EVENTS_MAX	(16U << 20)
#define PPC_WINDOW_BYTES_MAX	(32U << 20)
#define PPC_BEACON_BYTES_MIN	(64U << 10)
#define PPC_BEACON_BYTES_MAX	BIT(30)
#define PPC_LEASE_MS_MIN	100
#define PPC_LEASE_MS_MAX	600000
#define PPC_STEP_BYTES		(2UL << 20)	/* one step of LOAD; see load.c */
#define PPC_STEP_PAGES		(PPC_STEP_BYTES >> PAGE_SHIFT)
#define PPC_URGENT_PAGES	((1UL << 20) >> PAGE_SHIFT)	/* see ppc_miss_is_urgent() */

struct fs_context;
struct seq_file;
struct work_struct;
struct workqueue_struct;
struct mem_cgroup;
struct posix_acl;

/* params.c */
int ppc_show_options(struct seq_file *m, struct dentry *root);

/* super.c */
int ppc_fill_super(struct super_block *sb, struct fs_context *fc);
void ppc_kill_sb(struct super_block *sb);

/* inode.c */
struct inode *ppc_iget(struct super_block *sb, struct inode *lower);
DECLARE_STATIC_KEY_FALSE(ppc_idmapped_bases);
int ppc_refresh(struct inode *inode, bool wait);
void ppc_labels_init(void);

/* icache.c */
struct inode *ppc_ilookup(struct ppc_sb *sbi, u64 file_id);
struct inode *ppc_alloc_inode(struct super_block *sb);
void ppc_free_inode(struct inode *inode);
void ppc_evict_inode(struct inode *inode);
int ppc_drop_inode(struct inode *inode);
int ppc_inode_cache_init(void);
void ppc_inode_cache_exit(void);

/* lookup.c */
extern const struct dentry_operations ppc_dentry_ops;
struct dentry *ppc_lookup(struct inode *dir, struct dentry *dentry, unsigned int flags);

/* dir.c */
extern const struct file_operations ppc_dir_ops;

/* export.c */
void ppc_export_inherit(struct super_block *sb, const struct super_block *lower);

/* fileattr.c */
long ppc_lower_ioctl(struct file *lower, unsigned int cmd, unsigned long arg);
int ppc_fileattr_get(struct dentry *dentry, struct file_kattr *attr);

/* xattr.c */
extern const struct xattr_handler *ppc_xattr_handlers[];
ssize_t ppc_listxattr(struct dentry *dentry, char *list, size_t size);
struct posix_acl *ppc_get_acl(struct ppc_idmap *idmap, struct dentry *dentry, int type);

/* open.c */
extern struct workqueue_struct *ppc_long_wq;
struct file *ppc_open_lower_dir(struct file *file);
int ppc_lower_path(const struct file *file, struct path *real, struct dentry **held);
struct file *ppc_open_private(struct ppc_sb *sbi, struct inode *inode);
struct dentry *ppc_lower_alias(struct inode *inode);
bool ppc_shares_mapping(const struct super_block *lower);
struct ppc_open *ppc_open_create(struct inode *inode, struct file *file);
void ppc_open_abort(struct ppc_open *po);
void ppc_open_event(struct ppc_open *po, u8 kind);
void ppc_open_get(struct ppc_open *po);
bool ppc_open_try_get(struct ppc_open *po);
void ppc_open_put(struct ppc_open *po);
void ppc_access_flush(struct ppc_open *po);
int ppc_open_cache_init(void);
void ppc_open_cache_exit(void);

/* marks.c */
int ppc_ask_open(const struct file *file, struct dentry *lower, u32 *marks);
int ppc_ask_read(struct ppc_sb *sbi, struct dentry *lower, u32 marks, loff_t pos, size_t count);

/* file.c */
extern const struct file_operations ppc_file_ops;

/* aio.c */
ssize_t ppc_read_async(struct kiocb *iocb, struct iov_iter *to, struct file *lower, int flags);
int ppc_aio_cache_init(void);
void ppc_aio_cache_exit(void);

/* mmap.c */
int ppc_mmap(struct file *file, struct vm_area_struct *vma);
void ppc_choose_map_pages(struct ppc_open *po);

/* absent.c */
unsigned long ppc_next_absent(struct address_space *mapping, pgoff_t *index, pgoff_t last);
unsigned long ppc_count_absent(struct address_space *mapping, pgoff_t first, pgoff_t last);
bool ppc_is_present(struct address_space *mapping, pgoff_t index);
bool ppc_can_readahead(struct address_space *mapping);

/* miss.c */
bool ppc_tests_bypass(struct ppc_open *po, loff_t pos);
void ppc_learn_bypass(struct ppc_open *po, loff_t pos);
void ppc_report_read(struct ppc_open *po, loff_t pos, size_t count, unsigned long mode);
vm_fault_t ppc_report_fault(struct ppc_open *po, struct vm_fault *vmf, unsigned long mode,
			    bool *hit);
pgoff_t ppc_beacon_end(struct ppc_open *po, const struct vm_fault *vmf, pgoff_t beacon);
void ppc_fault_access(struct ppc_open *po, struct vm_fault *vmf, vm_fault_t ret, bool hit);

/* trace_access.c */
void ppc_access(struct ppc_open *po, pgoff_t index, unsigned long nr, u8 flags);
void ppc_access_flush_all(struct ppc_sb *sbi);
void ppc_access_flush_work(struct work_struct *work);

/* attach.c */
int ppc_attach_session(struct ppc_sb *sbi, struct ppc_session *session,
		       const struct ppc_attach *req);
bool ppc_detach_session(struct ppc_sb *sbi, struct ppc_session *session, bool expired);
void ppc_open_list_add(struct ppc_open *po);
void ppc_apply_advice(struct ppc_open *po, int advice);
void ppc_set_file_mode(struct ppc_sb *sbi, struct inode *inode, bool native);

static inline struct ppc_open_list *ppc_open_list_of(struct ppc_sb *sbi, const struct inode *inode)
{
	return &sbi->open_lists[hash_ptr(inode, PPC_OPEN_LISTS_BITS)];
}

static inline u32 ppc_nr_open(const struct ppc_sb *sbi)
{
	u32 i, sum = 0;

	for (i = 0; i < PPC_OPEN_LISTS; i++)
		sum += READ_ONCE(sbi->open_lists[i].nr);
	return sum;
}

/* session.c */
struct ppc_session *ppc_session_create(u32 queue_events);
void ppc_session_free(struct ppc_session *session);
void ppc_session_describe(const struct ppc_session *session, struct ppc_attach *out);
int ppc_session_mmap(struct ppc_session *session, struct vm_area_struct *vma);
bool ppc_session_pending(const struct ppc_session *session);
bool ppc_session_prepare_sleep(struct ppc_session *session);
bool ppc_session_lease_expired(struct ppc_session *session);
void ppc_session_renew(struct ppc_session *session);
void ppc_session_set_lease(struct ppc_session *session, u32 lease_ms);
u32 ppc_session_lease_ms(const struct ppc_session *session);
void ppc_session_wake(struct ppc_session *session);
struct wait_queue_head *ppc_session_wait(struct ppc_session *session);

/* upc.c */
bool ppc_upc_stamp(struct ppc_sb *sbi, struct ppc_event *ev);
void ppc_upc_emit(struct ppc_sb *sbi, struct ppc_event *ev, bool urgent);
bool ppc_upc_emit_limited(struct ppc_sb *sbi, struct ppc_event *ev);
void ppc_upc_wake_work(struct work_struct *work);
void ppc_upc_queue(struct ppc_sb *sbi, const struct ppc_event *ev);

/* upc_dev.c */
int ppc_dev_create(struct ppc_sb *sbi);
void ppc_dev_shutdown(struct ppc_sb *sbi);
void ppc_dev_put(struct ppc_sb *sbi);

/* Running ioctls must end soon: the mount goes away. */
static inline bool ppc_dev_dying(const struct ppc_sb *sbi)
{
	return READ_ONCE(sbi->dying);
}

/* N in /dev/ppcN. */
static inline int ppc_dev_minor(const struct ppc_sb *sbi)
{
	return sbi->minor;
}

int ppc_dev_class_init(void);
void ppc_dev_class_exit(void);

/* name.c */
struct dentry *ppc_walk(struct dentry *root, const char *name);
int ppc_name_of_id(struct ppc_sb *sbi, struct ppc_file *req);
int ppc_id_of_name(struct ppc_sb *sbi, struct ppc_file *req);

/* load.c */
int ppc_load_range(struct ppc_sb *sbi, struct inode *inode, struct ppc_load *req,
		   struct mem_cgroup *memcg, const atomic64_t *cancel);

/*
 * Pins a folio found by a walk under RCU, as the page cache does.  False: the
 * folio is being removed; look at this index again.
 */
static inline bool ppc_folio_pin(struct xa_state *xas, struct folio *folio)
{
	if (folio_try_get(folio)) {
		if (folio == xas_reload(xas))
			return true;
		folio_put(folio);
	}
	xas_reset(xas);
	return false;
}

/* evict.c */
int ppc_evict_range(struct ppc_sb *sbi, struct inode *inode, struct ppc_evict *req);

/* resident.c */
int ppc_resident_range(struct ppc_sb *sbi, struct inode *inode, struct ppc_resident *req);

/* sweep.c */
void ppc_sweep_start(struct ppc_sb *sbi);
void ppc_sweep_note_first_use(struct ppc_sb *sbi);

/* A name was found or a file closed: the sweep may have something to drop. */
static inline void ppc_sweep_note_use(struct ppc_sb *sbi)
{
	if (!READ_ONCE(sbi->recently_used))
		ppc_sweep_note_first_use(sbi);
}

void ppc_sweep_work(struct work_struct *work);

/* stats.c */
int ppc_show_stats(struct seq_file *m, struct dentry *root);
u64 ppc_stat_sum(const struct ppc_sb *sbi, enum ppc_stat stat);
int ppc_stats_add(struct ppc_sb *sbi);
void ppc_stats_remove(struct ppc_sb *sbi);
int ppc_stats_init(void);
void ppc_stats_exit(void);

static inline void ppc_stat_add(struct ppc_sb *sbi, enum ppc_stat stat, u64 n)
{
	this_cpu_add(sbi->stats->count[stat], n);
}

#endif /* PPC_H */
