# SPDX-License-Identifier: Apache-2.0
"""How many guests tools/test runs beside what runs on the host."""
import contextlib
import threading


class Guests:
    """How many guests run at once.  A suite that runs natively takes one's place: a service that starts late, for want
    of a CPU, is another test than the one that is meant."""

    def __init__(self, most):
        self.most, self.running = most, 0
        self.changed = threading.Condition()

    @contextlib.contextmanager
    def place(self, is_native=False):
        with self.changed:
            if is_native:
                self.most -= 1  # at once: the next guest to end would be followed by another one
            self.changed.wait_for(lambda: self.running <= self.most if is_native else self.running < self.most)
            self.running += not is_native
        try:
            yield
        finally:
            with self.changed:
                self.running -= not is_native
                self.most += is_native
                self.changed.notify_all()
