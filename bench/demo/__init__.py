# SPDX-License-Identifier: Apache-2.0
"""The demo: one model loaded by several systems in a guest, compared (see tools/demo)."""
