// SPDX-License-Identifier: Apache-2.0
// Owns what ppcd and its runners still know of their logs, for who has no journal.
// Threads: the loop's.
#ifndef PPC_DAEMON_SUPERVISOR_LOG_PAGE_H_
#define PPC_DAEMON_SUPERVISOR_LOG_PAGE_H_

#include "daemon/base/json.h"
#include "daemon/supervisor/registrations.h"
#include "daemon/wire/protocol.h"

namespace ppc::control {

// Answers the request log.
void ShowLog(const Registrations& registrations, const Json& body, const Reply& reply);

}  // namespace ppc::control

#endif  // PPC_DAEMON_SUPERVISOR_LOG_PAGE_H_
