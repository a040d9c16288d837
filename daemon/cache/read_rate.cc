// SPDX-License-Identifier: Apache-2.0
#include "daemon/cache/read_rate.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "daemon/backend/backend.h"
#include "daemon/base/clock.h"

namespace ppc {
namespace {

constexpr double kBurstSeconds = 0.1;
constexpr uint64_t kLookNs = kNsPerSec;
// The share of a limit that the supervisor has not heard of: with it others leave so much, see
// ReadBroker.
constexpr uint64_t kBeginShare = 16;

}  // namespace

// ----------------------------------------------------------------------- bucket

double TokenBucket::Most() const {
  return std::max(static_cast<double>(rate_) * kBurstSeconds, static_cast<double>(kStepBytes));
}

void TokenBucket::SetRate(uint64_t bytes_per_s) {
  const std::lock_guard lock(mutex_);
  rate_ = bytes_per_s;
}

uint64_t TokenBucket::Rate() const {
  const std::lock_guard lock(mutex_);
  return rate_;
}

void TokenBucket::Fill(uint64_t now_ns) {
  if (!is_filled_) {
    is_filled_ = true;
    bytes_ = Most();
  } else if (now_ns > filled_ns_) {
    const double seconds = static_cast<double>(now_ns - filled_ns_) / kNsPerSec;
    bytes_ = std::min(Most(), bytes_ + seconds * static_cast<double>(rate_));
  }
  filled_ns_ = std::max(filled_ns_, now_ns);
}

uint64_t TokenBucket::Available(uint64_t now_ns) {
  const std::lock_guard lock(mutex_);
  if (rate_ == 0) return std::numeric_limits<uint64_t>::max();
  Fill(now_ns);
  return bytes_ <= 0 ? 0 : static_cast<uint64_t>(bytes_);
}

void TokenBucket::Take(uint64_t now_ns, uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (rate_ == 0) return;
  Fill(now_ns);
  // The kernel throttles others by itself: a long debt would stop us for longer than they read.
  bytes_ = std::max(bytes_ - static_cast<double>(bytes), -Most());
  used_ += bytes;
}

void TokenBucket::GiveBack(uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  bytes_ = std::min(Most(), bytes_ + static_cast<double>(bytes));
  used_ -= std::min(used_, bytes);
}

void TokenBucket::Lack() {
  const std::lock_guard lock(mutex_);
  is_short_ = true;
}

std::pair<uint64_t, bool> TokenBucket::TakeUse() {
  const std::lock_guard lock(mutex_);
  return {std::exchange(used_, 0), std::exchange(is_short_, false)};
}

// ------------------------------------------------------------------------ table

uint64_t TokenBuckets::RateOf(const std::pair<uint64_t, BlockDevice>& id, uint64_t limit) const {
  const auto share = shares_.rates.find(id);
  if (share != shares_.rates.end()) return std::clamp<uint64_t>(share->second, 1, limit);
  if (shares_.runners <= 1) return limit;
  return std::max<uint64_t>(limit / kBeginShare / shares_.runners, 1);
}

std::shared_ptr<TokenBucket> TokenBuckets::Get(const IoLevel& level) {
  const std::lock_guard lock(mutex_);
  std::erase_if(buckets_, [](const auto& entry) { return entry.second.bucket.expired(); });
  const std::pair id(level.id, level.device);
  Entry& known = buckets_[id];
  std::shared_ptr<TokenBucket> bucket = known.bucket.lock();
  if (bucket == nullptr) known.bucket = bucket = std::make_shared<TokenBucket>();
  known.limit = level.rate;
  bucket->SetRate(RateOf(id, level.rate));
  return bucket;
}

void TokenBuckets::SetShares(RateShares shares) {
  const std::lock_guard lock(mutex_);
  shares_ = std::move(shares);
  for (const auto& [id, entry] : buckets_) {
    const std::shared_ptr<TokenBucket> bucket = entry.bucket.lock();
    if (bucket != nullptr) bucket->SetRate(RateOf(id, entry.limit));
  }
}

std::vector<RateUse> TokenBuckets::TakeUses(uint64_t now_ns) {
  const std::lock_guard lock(mutex_);
  const uint64_t passed = now_ns - std::min(now_ns, std::exchange(asked_ns_, now_ns));
  const double seconds = std::max(static_cast<double>(passed) / kNsPerSec, kBurstSeconds);
  std::vector<RateUse> uses;
  for (const auto& [id, entry] : buckets_) {
    const std::shared_ptr<TokenBucket> bucket = entry.bucket.lock();
    if (bucket == nullptr) continue;
    const auto [used, is_short] = bucket->TakeUse();
    const auto rate = static_cast<uint64_t>(static_cast<double>(used) / seconds);
    uses.push_back({id.first, id.second, entry.limit, rate, is_short});
  }
  return uses;
}

// ------------------------------------------------------------------------- rate

ReadRate::ReadRate(std::unique_ptr<IoLimit> limit, TokenBuckets* buckets)
    : limit_(std::move(limit)), table_(buckets) {}

void ReadRate::SetDevice(BlockDevice device) {
  const std::lock_guard lock(mutex_);
  if (has_device_ && device == device_) return;
  device_ = device;
  has_device_ = true;
  looked_ns_ = 0;
}

bool ReadRate::IsKnown(uint64_t now_ns) {
  const std::lock_guard lock(mutex_);
  if (!has_device_ || !limit_->IsKnown()) return true;
  return looked_ns_ != 0 && now_ns < looked_ns_ + kLookNs;
}

void ReadRate::Refresh(uint64_t now_ns) {
  if (is_reading_.exchange(true, std::memory_order_acq_rel)) return;
  BlockDevice device;
  bool is_due = false;
  {
    const std::lock_guard lock(mutex_);
    device = device_;
    is_due = has_device_ && limit_->IsKnown();
  }
  std::vector<std::shared_ptr<TokenBucket>> buckets;
  if (is_due) {
    for (const IoLevel& level : limit_->Read(device)) {
      if (level.rate == 0) continue;
      buckets.push_back(table_->Get(level));
    }
    const std::lock_guard lock(mutex_);
    // Another device meanwhile: another thread looks again.
    if (device == device_) {
      buckets_ = std::move(buckets);
      looked_ns_ = now_ns;
    }
  }
  is_reading_.store(false, std::memory_order_release);
}

uint64_t ReadRate::Take(uint64_t now_ns, uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (has_device_ && looked_ns_ == 0 && limit_->IsKnown()) return 0;  // not known yet
  uint64_t grant = bytes;
  for (const auto& bucket : buckets_) {
    const uint64_t available = bucket->Available(now_ns);
    if (available < bytes) bucket->Lack();
    grant = std::min(grant, available);
  }
  if (grant < bytes) grant = grant / kStepBytes * kStepBytes;
  if (grant == 0) return 0;
  for (const auto& bucket : buckets_) bucket->Take(now_ns, grant);
  return grant;
}

void ReadRate::GiveBack(uint64_t bytes) {
  if (bytes == 0) return;
  const std::lock_guard lock(mutex_);
  for (const auto& bucket : buckets_) bucket->GiveBack(bytes);
}

void ReadRate::Note(uint64_t now_ns, uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  for (const auto& bucket : buckets_) bucket->Take(now_ns, bytes);
}

uint64_t ReadRate::Limit() {
  const std::lock_guard lock(mutex_);
  uint64_t tightest = 0;
  for (const auto& bucket : buckets_) {
    const uint64_t rate = bucket->Rate();
    if (tightest == 0 || rate < tightest) tightest = rate;
  }
  return tightest;
}

}  // namespace ppc
