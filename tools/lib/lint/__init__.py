# SPDX-License-Identifier: Apache-2.0
"""The checks of tools/lint: each takes the list of files and returns findings, one line each."""
