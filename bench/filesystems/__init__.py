# SPDX-License-Identifier: Apache-2.0
"""The observer on file systems of this machine; see tests/all/observer-files."""
