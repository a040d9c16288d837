# SPDX-License-Identifier: Apache-2.0
"""Renders measured runs as one self-contained HTML page (see tools/report)."""
