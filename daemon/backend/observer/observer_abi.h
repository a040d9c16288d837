// SPDX-License-Identifier: Apache-2.0
// Owns what the BPF programs of the observer and the runner say to each other: records and map
// values.  Both sides are built from this file; no stored form, no version.
#ifndef PPC_DAEMON_BACKEND_OBSERVER_OBSERVER_ABI_H_
#define PPC_DAEMON_BACKEND_OBSERVER_OBSERVER_ABI_H_

#ifndef __bpf__
#include <stdint.h>
#else
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef int int32_t;
typedef unsigned long long uint64_t;
typedef long long int64_t;
#endif

enum {
  kObsPageBytes = 4096,          // that the programs are built for
  kObsMaxDirs = 64,              // registered directories that one set of programs serves
  kObsMaxInodes = 1 << 17,       // listed files of all directories together; others are discovered
  kObsMaxReaders = 1 << 13,      // (file, thread) pairs whose position is kept, or more by CPUs
  kObsMaxUnknown = 1 << 12,      // unlisted inodes that are remembered, or more by CPUs
  kObsLruPerCpu = 256,           // entries of these two per CPU: each takes 128 for itself
  kObsMaxOwn = 1 << 13,          // processes that load for us
  kObsMaxExecutables = 1 << 12,  // of all directories together
  kObsMostNews = 64,             // insertions told of one unlisted inode
  kObsMostDepth = 40,            // directories between a file and a registered one
  kObsNameBytes = 64,            // of a file's name that is told, its end included
  kObsAnyDir = kObsMaxDirs + 1,
};

// An inode as the page cache knows it (mapping->host); see ObserverMaps::inodes.
struct obs_inode_key {
  uint64_t ino;
  uint32_t dev;        // the kernel's form: major << 20 | minor
  uint32_t subvolume;  // of btrfs: two may agree in all else; 0 elsewhere
};

struct obs_inode {
  uint64_t file;  // the runner's number
  uint64_t addr;  // of the inode, salted; compared where `by_addr` says that the key is not unique
  uint32_t dir;
  uint32_t generation;
  uint32_t by_addr;
  uint32_t has_subvolumes;  // no file: look again with the subvolume
};

// An unlisted inode that was discovered.
struct obs_news {
  uint64_t addr;  // of the inode, salted
  uint64_t since_ns;
  uint32_t told;  // insertions
  uint32_t dir;   // that it lies in; kObsMaxDirs: none, kObsAnyDir: that cannot be told
};

// A registered directory's own inode.
struct obs_root_key {
  uint64_t ino;
  uint32_t dev;  // the kernel's form
  uint32_t pad;
};

// A device with files of a directory.
struct obs_device_key {
  uint32_t dev;
  uint32_t dir;
};

// An executable whose execs a directory's runner wants to be told of.
struct obs_exec_key {
  uint64_t ino;  // as the page cache knows it
  uint32_t dev;  // the kernel's form
  uint32_t dir;
};

// What a directory's runner wants to be told.
struct obs_dir {
  uint64_t beacon;       // bytes of a file between two positions of one thread
  uint64_t woken_ns;     // when the reader of the ring was woken last
  uint64_t urgent_ns;    // the same, for misses
  uint32_t is_watched;   // insertions are told; without it nothing is
  uint32_t wants_trace;  // every access
  uint32_t wants_progress;
  uint32_t wants_unlisted;  // every insertion into an unlisted file, not the first alone
  uint64_t root_dev;        // of the directory itself, as stat() has it
  uint64_t root_ino;
  uint32_t depth;  // of its path: of two that hold a file the deeper one has it
  uint32_t wants_execs;
  uint32_t wants_opens;  // kObsOpen
  uint32_t pad;
};

// The process that loaded the programs says this to the runners that use them.
struct obs_state {
  uint32_t has_tracepoints;
  uint32_t has_task_regs;
  uint32_t can_learn;
  uint32_t sees_pmds;  // what is mapped by huge pages
  uint32_t inserts;    // attached now
  uint32_t accesses;
  uint32_t can_tell_execs;
  uint32_t execs;        // attached now
  int32_t error;         // errno of the last try to attach
  uint32_t updates;      // tries so far
  uint32_t max_readers;  // that the map of readers holds
  uint32_t can_tell_direct;
  uint64_t skipped;  // runs that the kernel left out, as of the last update
};

// One (file, thread).
struct obs_reader_key {
  uint64_t file;
  uint32_t tid;
  uint32_t dir;
};

struct obs_reader {
  uint64_t told;      // offset of the position told last
  uint64_t told_end;  // and where that access ended
  uint64_t first;     // accesses gathered, not told yet: [first, end)
  uint64_t end;
  uint64_t miss_end;  // insertions told up to here, then gathered: [miss_end, miss_to)
  uint64_t miss_to;
  uint64_t time_ns;      // of the last access or insertion
  uint64_t accessed_ns;  // of the last access
  uint64_t start_ns;     // of the process, since boot
  uint64_t cgroup;       // of v2
  int32_t tgid;
  uint8_t flags;
  uint8_t miss_kind;
  uint8_t is_direct;  // told that it reads with O_DIRECT
  uint8_t pad;
};

// Kinds and flags are those of daemon/backend/backend.h.
enum {
  kObsMissRead = 1,
  kObsMissFault = 2,
  kObsProgress = 3,
  kObsAccess = 4,
  kObsOpen = 5,        // its thread has begun to read with O_DIRECT; of no other open
  kObsUnknown = 0x80,  // an inode of a registered device that no directory lists
  kObsMoved = 0x81,    // a listed inode has another address or generation than was learnt
  kObsExec = 0x82,     // a process has begun to run an executable; `offset` is its user
};
enum {
  kObsNotUser = 0x01,
  kObsDirect = 0x08,
  kObsMmap = 0x20,
};

struct obs_event {
  uint64_t file;  // kObsUnknown, kObsMoved, kObsExec: the inode's number
  uint64_t offset;
  uint64_t length;
  uint64_t time_ns;
  uint64_t start_ns;
  uint64_t cgroup;
  int32_t tgid;
  int32_t tid;
  uint16_t cpu;
  uint8_t kind;
  uint8_t flags;
  uint32_t dev;         // kObsUnknown, kObsMoved, kObsExec
  uint32_t generation;  // kObsUnknown
  uint32_t miss_kind;   // kObsUnknown: what it is to the reader
};

// The record of kObsUnknown; without a name it ends with the event, else with the name.
struct obs_unknown {
  struct obs_event event;
  uint64_t folder;  // inode of the directory that the name is in
  char name[kObsNameBytes];
};

// Per CPU and directory.
struct obs_counts {
  uint64_t sent;
  uint64_t lost;       // the ring was full, or a reader could not be remembered
  uint64_t readers;    // remembered anew
  uint64_t coalesced;  // accesses and insertions that went into another event
  uint64_t wakeups;
  uint64_t bypassed;  // bytes of reads with O_DIRECT
};

// What the iterator over our own mappings says of each.
struct obs_vma {
  uint64_t start;
  uint64_t addr;  // of the inode that its pages belong to, salted
  uint64_t ino;
  uint32_t dev;
  uint32_t generation;
  int32_t tgid;  // whose mapping, in the kernel's own numbers
  uint32_t subvolume;
};

#endif  // PPC_DAEMON_BACKEND_OBSERVER_OBSERVER_ABI_H_
