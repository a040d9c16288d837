/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The few fields of kernel structures that the observer reads.  Only names matter: libbpf finds
 * their offsets when the programs are loaded (CO-RE), so one object serves all kernels and nothing
 * is generated from the build machine.
 */
/* clang-format off */
#ifndef PPC_OBSERVER_KERNEL_TYPES_H_
#define PPC_OBSERVER_KERNEL_TYPES_H_

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct super_block {
	unsigned int s_dev;
	unsigned long s_magic;
};

struct hlist_node {
	struct hlist_node *next;
};

struct hlist_head {
	struct hlist_node *first;
};

struct inode {
	struct super_block *i_sb;
	struct hlist_head i_dentry;
	unsigned long i_ino;
	unsigned int i_generation;
	long long i_size;
};

/* Before about 7.1 the list of an inode's names is in a named union. */
union dentry_lists {
	struct hlist_node d_alias;
};

struct qstr {
	unsigned int len;
	const unsigned char *name;
};

struct dentry {
	struct dentry *d_parent;
	struct qstr d_name;
	struct inode *d_inode;
	union dentry_lists d_u;
};

struct dentry___flat {
	struct hlist_node d_alias;
};

/* Used only if the kernel has btrfs. */
struct btrfs_key {
	unsigned long long objectid;
};

struct btrfs_root {
	struct btrfs_key root_key;
};

struct btrfs_inode {
	struct btrfs_root *root;
	struct inode vfs_inode;
};

struct xarray {
	void *xa_head;
};

struct xa_node {
	unsigned char shift;
	void *slots[64];
};

struct address_space {
	struct inode *host;
	struct xarray i_pages;
};

struct file {
	struct address_space *f_mapping;
};

struct linux_binprm {
	struct file *file;
};

struct kiocb {
	struct file *ki_filp;
	long long ki_pos;
	int ki_flags;
};

struct iov_iter {
	unsigned long count;
};

struct vm_area_struct {
	unsigned long vm_start;
	unsigned long vm_pgoff;
	struct file *vm_file;
};

struct vm_fault {
	struct vm_area_struct *vma;
	unsigned long pgoff;
	unsigned long address;
};

struct folio {
	struct address_space *mapping;
	unsigned long index;
};

/* 5.16 to 6.5. */
struct folio___order {
	unsigned char _folio_order;
};

/* 6.6 and later: the order is in the low byte of the second page's flags. */
struct folio___flags {
	unsigned long flags;
	unsigned long _flags_1;
};

/* 6.18: flags became a structure. */
typedef struct {
	unsigned long f;
} memdesc_flags_t;

struct folio___memdesc {
	memdesc_flags_t flags;
	unsigned long _flags_1;
};

/* 5.10 to 5.15: pages, each inserted alone. */
struct page {
	struct address_space *mapping;
	unsigned long index;
};

struct kernfs_node {
	unsigned long long id;
};

struct cgroup {
	struct kernfs_node *kn;
};

struct css_set {
	struct cgroup *dfl_cgrp;
};

struct task_struct {
	int tgid;
	struct task_struct *group_leader;
	unsigned long long start_boottime;
	struct css_set *cgroups;
};

#if defined(__TARGET_ARCH_x86)
struct pt_regs {
	unsigned long orig_ax;
};
#elif defined(__TARGET_ARCH_arm64)
struct pt_regs {
	int syscallno;
};
#endif

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__task_vma {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
	struct vm_area_struct *vma;
};

enum pageflags {
	PG_head = 6,
};

#pragma clang attribute pop

#endif /* PPC_OBSERVER_KERNEL_TYPES_H_ */
