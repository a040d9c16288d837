# SPDX-License-Identifier: Apache-2.0
"""Exit statuses of tools/vm that are not the command's own, and the error that carries one."""

USAGE = 64  # wrong or not yet built option
COMPLAINT = 70  # the guest kernel logged a report that nobody announced
DIED = 71  # the guest ended without the command ending
HOST = 72  # the machine could not be prepared or started on this host
TIMEOUT = 124


class VmError(Exception):
    """One line for the user, and the status to exit with."""

    def __init__(self, message, status=HOST):
        super().__init__(message)
        self.status = status
