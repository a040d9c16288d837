# SPDX-License-Identifier: Apache-2.0
"""Model loaders of other projects, cold, natively and with MAIO: tests/all/loaders."""
