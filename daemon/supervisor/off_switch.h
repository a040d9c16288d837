// SPDX-License-Identifier: Apache-2.0
// Owns whether PPC is switched off on this machine: every directory is the kernel's alone, also
// after a reboot, which a file beside the templates is for.
// Threads: the loop's.
#ifndef PPC_DAEMON_SUPERVISOR_OFF_SWITCH_H_
#define PPC_DAEMON_SUPERVISOR_OFF_SWITCH_H_

#include <string>

#include "daemon/base/result.h"

namespace ppc::control {

class OffSwitch {
 public:
  // As the file says.
  explicit OffSwitch(const std::string& template_dir);

  bool is_off() const { return is_off_; }
  // The file.
  const std::string& mark() const { return mark_; }

  // Off all the same where this fails, until a reboot.
  Status TurnOff();
  // True: it was off.
  Result<bool> TurnOn();

  // What is answered meanwhile.
  static Error Refusal();

 private:
  const std::string mark_;
  bool is_off_;
};

}  // namespace ppc::control

#endif  // PPC_DAEMON_SUPERVISOR_OFF_SWITCH_H_
