// SPDX-License-Identifier: Apache-2.0
#include "daemon/cache/device_meter.h"

#include "daemon/backend/backend.h"

namespace ppc {
namespace {

void Blend(double value, double* estimate) {
  *estimate = *estimate == 0 ? value : (*estimate + value) / 2;
}

double Ratio(uint64_t ns, uint64_t bytes) {
  return static_cast<double>(ns) / static_cast<double>(bytes);
}

}  // namespace

void DeviceMeter::Account(uint64_t now_ns) {
  if (under_way_ > 0 && now_ns > accounted_ns_) busy_ns_ += now_ns - accounted_ns_;
  accounted_ns_ = now_ns;
}

void DeviceMeter::Begin(uint64_t now_ns) {
  Account(now_ns);
  if (window_ns_ == 0) window_ns_ = now_ns;
  if (under_way_ == 0) CloseAt(now_ns);
  ++under_way_;
}

void DeviceMeter::End(uint64_t now_ns, uint64_t bytes, uint64_t duration_ns) {
  Account(now_ns);
  --under_way_;
  bytes_ += bytes;
  if (bytes >= kWholeBytes) {
    whole_bytes_ += bytes;
    whole_ns_ += duration_ns;
  }
  CloseAt(now_ns);
}

void DeviceMeter::CloseAt(uint64_t now_ns) {
  if (now_ns < window_ns_ + kWindowNs) return;
  window_ns_ = now_ns;
  if (bytes_ > 0 && busy_ns_ > 0) Blend(Ratio(busy_ns_, bytes_), &ns_per_byte_);
  if (whole_bytes_ > 0) Blend(Ratio(whole_ns_, whole_bytes_), &step_ns_per_byte_);
  busy_ns_ = bytes_ = whole_bytes_ = whole_ns_ = 0;
}

DeviceSpeed DeviceMeter::Speed() const {
  double ns_per_byte = ns_per_byte_;
  double step_ns_per_byte = step_ns_per_byte_;
  if (under_way_ == 0) {
    if (ns_per_byte == 0 && bytes_ > 0) ns_per_byte = Ratio(busy_ns_, bytes_);
    if (step_ns_per_byte == 0 && whole_bytes_ > 0)
      step_ns_per_byte = Ratio(whole_ns_, whole_bytes_);
  }
  DeviceSpeed speed;
  if (ns_per_byte > 0) speed.bytes_per_s = static_cast<uint64_t>(1e9 / ns_per_byte);
  speed.step_ns = static_cast<uint64_t>(step_ns_per_byte * static_cast<double>(kStepBytes));
  return speed;
}

}  // namespace ppc
