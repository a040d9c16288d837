// SPDX-License-Identifier: Apache-2.0
#include "daemon/supervisor/off_switch.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "daemon/base/log.h"
#include "daemon/base/unique_fd.h"
#include "daemon/wire/protocol.h"

namespace ppc::control {

OffSwitch::OffSwitch(const std::string& template_dir)
    : mark_(OffMark(template_dir)), is_off_(access(mark_.c_str(), F_OK) == 0) {
  if (is_off_) Log(LogLevel::kWarning, "PPC is off (" + mark_ + "); ppcctl on");
}

Status OffSwitch::TurnOff() {
  const UniqueFd mark(open(mark_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
  Status written = mark.IsValid() ? Ok() : Status(PosixError(mark_, errno));
  if (!std::exchange(is_off_, true)) Log(LogLevel::kWarning, "switched off");
  return written;
}

Result<bool> OffSwitch::TurnOn() {
  if (unlink(mark_.c_str()) != 0 && errno != ENOENT) return PosixError(mark_, errno);
  const bool was_off = std::exchange(is_off_, false);
  if (was_off) Log(LogLevel::kInfo, "switched on");
  return was_off;
}

Error OffSwitch::Refusal() { return {ESHUTDOWN, "PPC is switched off on this machine; ppcctl on"}; }

}  // namespace ppc::control
