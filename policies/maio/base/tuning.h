// SPDX-License-Identifier: Apache-2.0
//
// The numbers that are policy: what was chosen, and why so much.  Bounds of
// formats and of tables stay with them.  Sizes in bytes, times in ns.
#ifndef POLICIES_MAIO_BASE_TUNING_H_
#define POLICIES_MAIO_BASE_TUNING_H_

#include <cstddef>
#include <cstdint>

namespace ppc::maio {

// ----------------------------------------------------------------- loading
// Of a layout: more than this are joined.
inline constexpr uint32_t kMaxPieces = 1u << 17;
// A chunk keeps a device busy for longer than asking for it takes; near a reader it has to be there
// soon, and is as small as what the loader can be stopped at.
inline constexpr uint64_t kChunkBytes = 8ull << 20;
inline constexpr uint64_t kNearChunkBytes = 2ull << 20;
inline constexpr uint64_t kNearBytes = 32ull << 20;
// Not worth a request, or a node, of its own.
inline constexpr uint64_t kTinyBytes = 16 << 10;
// A reader that reads what the template does not have is half trusted: not to the end.
inline constexpr uint64_t kDriftAheadBytes = 256ull << 20;
// A file that fails so often is left to its readers.
inline constexpr uint32_t kMaxFileErrors = 3;
// Who has read less may turn out to be as fast as any: initialisation reads a little, and slowly.
inline constexpr uint64_t kKnownRateBytes = 16ull << 20;
// A worker that has read so much of the model, or 1/so much of a small one, through the page cache
// goes on so: it is more than headers.
inline constexpr uint64_t kSeenBytes = 16ull << 20;
inline constexpr uint64_t kSeenShare = 16;
// Until a service reads its model at most 1/so much of its memory is left for itself.  What it took
// is measured until its workers read, or so long after the first of them; a little may be pages of
// the model that are not known of.
inline constexpr uint64_t kMostOwnShare = 4;
inline constexpr uint64_t kOwnSettleNs = 1'000'000'000;
inline constexpr uint64_t kLeastOwnBytes = 16ull << 20;
// No report for so long: what was refused, or lost, is never reported.
inline constexpr uint64_t kExpiryNs = 20'000'000'000;

// ---------------------------------------------------------------- positions
// How far a reader may stray from the recorded order, of its sequence 1/16: neighbouring tensors
// change places, a shard does not.
inline constexpr uint64_t kOutOfOrderMax = 64ull << 20;
inline constexpr uint64_t kOutOfOrderMin = 8ull << 20;
// Events that prove a jump, misses behind the front that prove another pass: one alone is a look.
inline constexpr uint32_t kJumpHits = 3;
inline constexpr uint32_t kRewindMisses = 3;
// A stream without events, while its group has so many, has ended.
inline constexpr uint64_t kSettleEvents = 16;
// Of several places where a page may be meant, one behind is so much farther.
inline constexpr uint32_t kBackwardWeight = 4;
// Reads of another's data, with none of its own between them, that prove who a process is.
inline constexpr uint32_t kVotes = 8;
// How far behind what was asked for the kernel's read-ahead, 128 KiB unless told, and what it
// starts beside it may reach.
inline constexpr uint64_t kReadAheadPages = 64;
// A process that is silent for so long may be replaced by a new one.
inline constexpr uint64_t kGoneNs = 1'000'000'000;
// A worker that is silent for so long while others moved on is gone, and holds nothing any more.
inline constexpr uint64_t kSilentNs = 60'000'000'000;
inline constexpr uint64_t kSilentBytes = 4ull << 30;
inline constexpr uint64_t kSilentShare = 4;  // of a small model so much is enough

// ----------------------------------------------------------------- releasing
// A reader that rests has copied what it read.
inline constexpr uint64_t kRestNs = 5'000'000'000;
// The distance grows up to that, at most so often: one burst of misses is one mistake.
inline constexpr uint64_t kMaxDistance = 8ull << 30;
inline constexpr uint64_t kWidenNs = 1'000'000'000;
// Of the distance, while loading stands still for want of room.
inline constexpr uint64_t kTightShare = 2;
// What was still mapped is tried again, each time after twice as long, not for ever: most loaders
// unmap a file once they have read it.
inline constexpr uint64_t kFirstRetryNs = 125'000'000;
inline constexpr uint32_t kMaxAttempts = 6;
// Of what was released so lately nobody knows whether it is there.
inline constexpr uint64_t kReleasedNs = 1'000'000'000;
// A drop that was refused is never reported.
inline constexpr uint64_t kDropNs = 2'000'000'000;
// So much is dropped at a time.
inline constexpr uint64_t kEvictStepBytes = 32ull << 20;
// 1/so much of a step of what is used furthest ahead makes room for what a reader needs within as
// much: further ahead the nearest absent piece would take the place of the furthest resident one
// without end.
inline constexpr uint64_t kSwapShare = 2;
// The order of all pieces is made anew so often: with many pieces more seldom, for it looks at
// each.
inline constexpr uint64_t kSortNs = 10'000'000;
inline constexpr uint64_t kSortNsPerPiece = 10'000;
// What is still held so long after ready is another's.
inline constexpr uint64_t kEndNs = 10'000'000'000;

// --------------------------------------------------------------- the service
// A recording of packages alone ends when its service has read nothing for so long.
inline constexpr uint64_t kIdleRecordNs = 30'000'000'000;
// Steps of less, to where no reader has come near of late, are small reads; a recording of them
// ends so long after its first: images of some GiB are read by then, an index never is.
inline constexpr uint64_t kSmallReadPages = (256 << 10) / 4096;
inline constexpr uint64_t kStepGapPages = (256 << 10) / 4096;
inline constexpr uint64_t kScatteredNs = 300'000'000'000;
// An access is told so much later than it happened at most, and as many may come before it; the
// observer tells of a reader's last one when it has been idle for 100 ms, and looks as often.
inline constexpr uint64_t kLateNs = 500'000'000;
inline constexpr size_t kMostLate = 8192;
// Of the bytes, 1/so many: cached before they were read, a recording is suspect; changed, the model
// is recorded again.
inline constexpr uint64_t kWarmShare = 100;
// 1/so much of a mapped model was in memory before: that may have been mapped by huge pages.
inline constexpr uint64_t kUnseenShare = 20;
inline constexpr uint64_t kHugeBytes = 2 << 20;
inline constexpr uint64_t kStaleShare = 10;
// A load ends when all its readers have been at the end for so long, or when nothing of the model
// has been read for the first time or loaded for kQuietNs after so many bytes of it were read.
inline constexpr uint64_t kAtEndNs = 2'000'000'000;
inline constexpr uint64_t kQuietNs = 10'000'000'000;
inline constexpr uint64_t kSubstantialBytes = 16ull << 20;
// While it serves: misses of one worker, one after the other in the order of the template and so
// close in time, are a load again (a reader that had paused, sleep mode, new weights).
inline constexpr uint32_t kReloadMisses = 3;
inline constexpr uint64_t kReloadNs = 10'000'000'000;
// A recording that ended by itself goes on when something is missed that it does not have; so
// often.
inline constexpr uint32_t kMostResumes = 8;
// Passes over a model larger than its memory.  A stripe has a part that stays and a part that is
// loaded in each pass; small models have smaller ones, so that there are many.
inline constexpr uint64_t kStripeBytes = 32ull << 20;
inline constexpr uint64_t kLeastStripeBytes = 4ull << 20;
inline constexpr uint64_t kLeastStripes = 64;
// Large folios, and what the loader stops at.
inline constexpr uint64_t kStripeStep = 2ull << 20;
inline constexpr uint64_t kKeptStep = 256ull << 10;
// Loaded so far ahead of the reader, in whole stripes; dropped so many stripes behind it, which
// threads that share its work may still be in.
inline constexpr uint64_t kAheadBytes = 64ull << 20;
inline constexpr uint64_t kLeastAheadBytes = 16ull << 20;
inline constexpr uint64_t kLeastAhead = 2;   // stripes
inline constexpr uint64_t kAheadShare = 24;  // of the memory that there is
inline constexpr uint64_t kBehindStripes = 2;
// A stripe in which nothing was seen for so many turns is not read in a pass (a table that is
// gathered from).
inline constexpr int kUnseenTurns = 2;
// Fewer steps from stripe to stripe are no pass; one that rested for so long says nothing of its
// time.
inline constexpr uint64_t kLeastMoves = 8;
inline constexpr uint64_t kPassRestNs = 2'000'000'000;
// More than 1/so much of a pass read by other processes: each has a place of its own.
inline constexpr uint64_t kSharedShare = 8;
// So many in a row that are no pass, and nothing can be said of what is gained.
inline constexpr int kMostIrregular = 4;
// Of the model or of the time, 1/so much is a gain; of the model, 1/so much that was to stay and
// was missed says that memory is smaller than it looks; of the limit, 1/so much is another limit.
inline constexpr uint64_t kLeastGainShare = 32;
inline constexpr uint64_t kKeptMissedShare = 64;
// Of what was left free for that, 1/so much is tried again after each pass in which nothing went.
inline constexpr uint64_t kSpareShare = 8;
// Of the model, 1/so much missed in one pass says that the kernel evicts what is needed next.
inline constexpr uint64_t kThrashShare = 4;
// A model of which 1/so much and less is loaded in each pass may fit: after so many passes, then
// after so many times as many, one is measured without us.
inline constexpr uint64_t kNearlyShare = 12;
inline constexpr uint64_t kTrialPasses = 16;
inline constexpr uint64_t kTrialGrowth = 8;
inline constexpr uint64_t kLimitShare = 32;
inline constexpr uint64_t kRoomShare = 16;  // so much less room, and a pass is measured again
// Models by turns: what a reader has passed is dropped so far behind it, after so many switches in
// a row since a model was read twice.  Hits are told of for so long after the last drop.
inline constexpr uint64_t kPassedBytes = 16ull << 20;
inline constexpr uint32_t kLeastSwitches = 3;
inline constexpr uint64_t kHitsNs = 600'000'000'000;
// A mixture of experts.  A piece is worth a load from two of the kernel's windows on.  A miss so
// close behind a piece that is on its way may be that one's read-ahead.
inline constexpr uint64_t kLeastExpertBytes = 256ull << 10;
inline constexpr uint64_t kExpertEdgeBytes = 256ull << 10;
// A piece that is missed after so much else was asked for, or so much later, has gone again.
inline constexpr uint64_t kExpertAgainBytes = 32ull << 20;
inline constexpr uint64_t kExpertAgainNs = 500'000'000;
// Positions are told for so long after the last load.
inline constexpr uint64_t kExpertsOnNs = 10'000'000'000;
// Files of no known kind up to this are small: read by anybody, kept until ready.
inline constexpr uint64_t kSmallBytes = 32ull << 20;
// What the kernel reads around a fault of a mapped file.
inline constexpr uint64_t kAroundPages = 32;
// So many of them are a program's packages: worth a template without a model, and no fingerprints.
inline constexpr size_t kPackageFiles = 256;
// Looked up at a time: each costs the disk an answer or two.
inline constexpr size_t kLookUpsAtOnce = 32;
inline constexpr size_t kLookUpsPerHelper = 4;  // fewer are not worth a thread
// Packages looked up before the first of them is loaded, and then between two hooks.
inline constexpr size_t kLookUpsFirst = 256;
inline constexpr size_t kLookUpsNext = 512;
// So long the model waits for the next of them.
inline constexpr uint64_t kLookUpsNs = 1'000'000'000;
// Of work in the background, for looking what is cached and for reading headers: neither many pages
// nor a store that hangs must keep a start waiting.
inline constexpr uint64_t kFindBudgetNs = 400'000'000;
inline constexpr uint64_t kHeadersBudgetNs = 30'000'000'000;
// The events' thread looks so long for what is gone of what was loaded, and this long apart.
inline constexpr uint64_t kLookBudgetNs = 2'000'000;
inline constexpr uint64_t kLookNs = 10'000'000;
// Larger headers cost the runner too much memory.
inline constexpr uint64_t kMaxHeaderBytes = 16ull << 20;
// Events while a start is prepared, which takes less than a second.
inline constexpr size_t kMaxEarly = 16384;
// For people: the time series, and counters in ticks.
inline constexpr uint64_t kTraceNs = 100'000'000;
inline constexpr uint32_t kTicksPerStats = 5;

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_BASE_TUNING_H_
