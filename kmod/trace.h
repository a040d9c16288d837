/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tracepoints; integers only.  minor is N in /dev/ppcN.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM ppc

#if !defined(PPC_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define PPC_TRACE_H

#include <linux/tracepoint.h>

TRACE_EVENT(ppc_miss,
	TP_PROTO(int minor, u64 file_id, unsigned long index, unsigned long pages, u8 kind),
	TP_ARGS(minor, file_id, index, pages, kind),
	TP_STRUCT__entry(
		__field(int, minor)
		__field(u64, file_id)
		__field(unsigned long, index)
		__field(unsigned long, pages)
		__field(u8, kind)
	),
	TP_fast_assign(
		__entry->minor = minor;
		__entry->file_id = file_id;
		__entry->index = index;
		__entry->pages = pages;
		__entry->kind = kind;
	),
	TP_printk("minor=%d file=%llu index=%lu pages=%lu kind=%u", __entry->minor,
		  __entry->file_id, __entry->index, __entry->pages, __entry->kind)
);

DECLARE_EVENT_CLASS(ppc_event_class,
	TP_PROTO(int minor, u64 file_id, u64 offset, u32 length, u8 kind, u8 flags),
	TP_ARGS(minor, file_id, offset, length, kind, flags),
	TP_STRUCT__entry(
		__field(int, minor)
		__field(u64, file_id)
		__field(u64, offset)
		__field(u32, length)
		__field(u8, kind)
		__field(u8, flags)
	),
	TP_fast_assign(
		__entry->minor = minor;
		__entry->file_id = file_id;
		__entry->offset = offset;
		__entry->length = length;
		__entry->kind = kind;
		__entry->flags = flags;
	),
	TP_printk("minor=%d file=%llu offset=%llu length=%u kind=%u flags=%u", __entry->minor,
		  __entry->file_id, __entry->offset, __entry->length, __entry->kind,
		  __entry->flags)
);

DEFINE_EVENT(ppc_event_class, ppc_event_queued,
	TP_PROTO(int minor, u64 file_id, u64 offset, u32 length, u8 kind, u8 flags),
	TP_ARGS(minor, file_id, offset, length, kind, flags));

DEFINE_EVENT(ppc_event_class, ppc_event_dropped,
	TP_PROTO(int minor, u64 file_id, u64 offset, u32 length, u8 kind, u8 flags),
	TP_ARGS(minor, file_id, offset, length, kind, flags));

TRACE_EVENT(ppc_load,
	TP_PROTO(int minor, u64 file_id, u64 offset, u64 done, u64 submitted, u64 resident,
		 u64 failed, u32 stop),
	TP_ARGS(minor, file_id, offset, done, submitted, resident, failed, stop),
	TP_STRUCT__entry(
		__field(int, minor)
		__field(u64, file_id)
		__field(u64, offset)
		__field(u64, done)
		__field(u64, submitted)
		__field(u64, resident)
		__field(u64, failed)
		__field(u32, stop)
	),
	TP_fast_assign(
		__entry->minor = minor;
		__entry->file_id = file_id;
		__entry->offset = offset;
		__entry->done = done;
		__entry->submitted = submitted;
		__entry->resident = resident;
		__entry->failed = failed;
		__entry->stop = stop;
	),
	TP_printk("minor=%d file=%llu offset=%llu done=%llu submitted=%llu resident=%llu failed=%llu stop=%u",
		  __entry->minor, __entry->file_id, __entry->offset, __entry->done,
		  __entry->submitted, __entry->resident, __entry->failed, __entry->stop)
);

TRACE_EVENT(ppc_evict,
	TP_PROTO(int minor, u64 file_id, u64 offset, u64 length, u64 asked, u64 dropped,
		 u64 mapped, u64 busy),
	TP_ARGS(minor, file_id, offset, length, asked, dropped, mapped, busy),
	TP_STRUCT__entry(
		__field(int, minor)
		__field(u64, file_id)
		__field(u64, offset)
		__field(u64, length)
		__field(u64, asked)
		__field(u64, dropped)
		__field(u64, mapped)
		__field(u64, busy)
	),
	TP_fast_assign(
		__entry->minor = minor;
		__entry->file_id = file_id;
		__entry->offset = offset;
		__entry->length = length;
		__entry->asked = asked;
		__entry->dropped = dropped;
		__entry->mapped = mapped;
		__entry->busy = busy;
	),
	TP_printk("minor=%d file=%llu offset=%llu length=%llu asked=%llu dropped=%llu mapped=%llu busy=%llu",
		  __entry->minor, __entry->file_id, __entry->offset, __entry->length,
		  __entry->asked, __entry->dropped, __entry->mapped, __entry->busy)
);

TRACE_EVENT(ppc_attach,
	TP_PROTO(int minor, unsigned long mode, u32 window, u32 beacon),
	TP_ARGS(minor, mode, window, beacon),
	TP_STRUCT__entry(
		__field(int, minor)
		__field(unsigned long, mode)
		__field(u32, window)
		__field(u32, beacon)
	),
	TP_fast_assign(
		__entry->minor = minor;
		__entry->mode = mode;
		__entry->window = window;
		__entry->beacon = beacon;
	),
	TP_printk("minor=%d mode=%lu window=%u beacon=%u", __entry->minor, __entry->mode,
		  __entry->window, __entry->beacon)
);

#endif /* PPC_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
