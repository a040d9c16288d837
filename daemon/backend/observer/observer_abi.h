// SPDX-License-Identifier: Apache-2.0
// Owns the records and map values that the observer's BPF programs and the runner exchange.  Both
// sides are built from this file; nothing is stored, so there is no version.
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
  kObsPageBytes = 4096,          // page size that the programs are built for
  kObsMaxDirs = 64,              // registered directories that one set of programs serves
  kObsMaxInodes = 1 << 17,       // listed files of all directories; others are discovered
  kObsMaxReaders = 1 << 13,      // tracked (file, thread) pairs; more on machines with many CPUs
  kObsMaxReported = 1 << 12,     // remembered unlisted inodes; likewise
  kObsLruPerCpu = 256,           // least entries per CPU of these two maps: each CPU reserves 128
  kObsMaxOwn = 1 << 13,          // processes that load for the runners
  kObsMaxExecutables = 1 << 12,  // of all directories together
  kObsMostReports = 64,          // reported insertions per unlisted inode
  kObsMostDepth = 40,            // directories between a file and a registered one
  kObsNameBytes = 64,            // reported bytes of a file's name, NUL included
  kObsAnyDir = kObsMaxDirs + 1,
};

// An inode as the page cache knows it (mapping->host); see ObserverMaps::inodes.
struct obs_inode_key {
  uint64_t ino;
  uint32_t dev;        // the kernel's form: major << 20 | minor
  uint32_t subvolume;  // of btrfs, where two may agree in all else; else 0
};

struct obs_inode {
  uint64_t file;  // the runner's number
  uint64_t addr;  // of the inode, salted; compared if `by_addr` says that the key is not unique
  uint32_t dir;
  uint32_t generation;
  uint32_t by_addr;
  uint32_t has_subvolumes;  // not a file: look up again with the subvolume
};

// An unlisted inode that was discovered.
struct obs_reported_inode {
  uint64_t addr;  // of the inode, salted
  uint64_t since_ns;
  uint32_t reports;  // of insertions
  uint32_t dir;      // that contains it; kObsMaxDirs: none, kObsAnyDir: unknown
};

// A registered directory's own inode.
struct obs_root_key {
  uint64_t ino;
  uint32_t dev;  // the kernel's form
  uint32_t pad;
};

// A device that has files of a directory.
struct obs_device_key {
  uint32_t dev;
  uint32_t dir;
};

// An executable whose execs a runner wants.
struct obs_exec_key {
  uint64_t ino;  // as the page cache knows it
  uint32_t dev;  // the kernel's form
  uint32_t dir;
};

// The events that a directory's runner wants.
struct obs_dir {
  uint64_t beacon;       // bytes of a file between two reported positions of one thread
  uint64_t woken_ns;     // when the ring's reader was last woken
  uint64_t urgent_ns;    // likewise, for misses
  uint32_t is_watched;   // 1: insertions are reported; 0: nothing is
  uint32_t wants_trace;  // report every access
  uint32_t wants_progress;
  uint32_t wants_unlisted;  // report every insertion into an unlisted file, not only the first
  uint64_t root_dev;        // of the directory itself, as in stat()
  uint64_t root_ino;
  uint32_t depth;  // of its path: the deeper of two directories owns a common file
  uint32_t wants_execs;
  uint32_t wants_opens;  // report kObsOpen
  uint32_t pad;
};

// State of the programs, for the runners that use them, from the process that loaded them.
struct obs_state {
  uint32_t has_tracepoints;
  uint32_t has_task_regs;
  uint32_t can_learn;
  uint32_t sees_pmds;  // huge-page mappings are reported
  uint32_t inserts;    // attached now
  uint32_t accesses;
  uint32_t can_report_execs;
  uint32_t execs;        // attached now
  int32_t error;         // errno of the last try to attach
  uint32_t updates;      // number of tries so far
  uint32_t max_readers;  // capacity of the map of readers
  uint32_t can_report_direct;
  uint64_t skipped;  // runs skipped by the kernel, at the last update
};

// One thread that reads one file.
struct obs_reader_key {
  uint64_t file;
  uint32_t tid;
  uint32_t dir;
};

struct obs_reader {
  uint64_t reported;      // offset of the last reported position
  uint64_t reported_end;  // end of that access
  uint64_t first;         // accesses not reported yet: [first, end)
  uint64_t end;
  uint64_t miss_end;  // insertions reported up to here, pending: [miss_end, miss_to)
  uint64_t miss_to;
  uint64_t time_ns;      // of the last access or insertion
  uint64_t accessed_ns;  // of the last access
  uint64_t start_ns;     // start of the process, since boot
  uint64_t cgroup;       // cgroup2 id
  int32_t tgid;
  uint8_t flags;
  uint8_t miss_kind;
  uint8_t is_direct;  // O_DIRECT reads of it were reported
  uint8_t pad;
};

// Kinds and flags are those of daemon/backend/backend.h.
enum {
  kObsMissRead = 1,
  kObsMissFault = 2,
  kObsProgress = 3,
  kObsAccess = 4,
  kObsOpen = 5,         // the thread's first O_DIRECT read; no other open is reported
  kObsUnlisted = 0x80,  // an inode of a registered device that no directory lists
  kObsChanged = 0x81,   // a listed inode whose address or generation has changed
  kObsExec = 0x82,      // a process has begun to run an executable; `offset` is its user id
};
enum {
  kObsNotUser = 0x01,
  kObsDirect = 0x08,
  kObsMmap = 0x20,
};

struct obs_event {
  uint64_t file;  // kObsUnlisted, kObsChanged, kObsExec: inode number
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
  uint32_t dev;         // kObsUnlisted, kObsChanged, kObsExec
  uint32_t generation;  // kObsUnlisted
  uint32_t miss_kind;   // kObsUnlisted: kind for the runner's event
};

// The record of kObsUnlisted; it ends after the event if there is no name.
struct obs_unlisted_event {
  struct obs_event event;
  uint64_t folder;  // inode of the directory that has the name
  char name[kObsNameBytes];
};

// Counters per CPU and directory.
struct obs_counts {
  uint64_t sent;
  uint64_t lost;       // the ring was full, or the reader was not tracked
  uint64_t readers;    // newly tracked
  uint64_t coalesced;  // accesses and insertions merged into another event
  uint64_t wakeups;
  uint64_t bypassed;  // bytes of O_DIRECT reads
};

// A record of the iterator over mappings.
struct obs_vma {
  uint64_t start;
  uint64_t addr;  // of the mapped inode, salted
  uint64_t ino;
  uint32_t dev;
  uint32_t generation;
  int32_t tgid;  // process of the mapping, in the initial pid namespace
  uint32_t subvolume;
};

#endif  // PPC_DAEMON_BACKEND_OBSERVER_OBSERVER_ABI_H_
