# SPDX-License-Identifier: Apache-2.0
"""Inference engines and the table of cases that showed harm, natively and with PPC: tests/all/engines."""
