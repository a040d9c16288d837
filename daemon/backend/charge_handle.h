// SPDX-License-Identifier: Apache-2.0
// Owns one handle of Backend::Charge: who holds it can charge loads to that cgroup.
// Threads: destroyed by any.
#ifndef PPC_DAEMON_BACKEND_CHARGE_HANDLE_H_
#define PPC_DAEMON_BACKEND_CHARGE_HANDLE_H_

#include <cstdint>

#include "daemon/backend/backend.h"

namespace ppc {

class ChargeHandle {
 public:
  // The backend must outlive this.
  ChargeHandle(Backend* backend, uint32_t number) : backend_(backend), number_(number) {}
  ChargeHandle(const ChargeHandle&) = delete;
  ChargeHandle& operator=(const ChargeHandle&) = delete;
  ~ChargeHandle() { backend_->Uncharge(number_); }
  uint32_t number() const { return number_; }

 private:
  Backend* const backend_;
  const uint32_t number_;
};

}  // namespace ppc

#endif  // PPC_DAEMON_BACKEND_CHARGE_HANDLE_H_
