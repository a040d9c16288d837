# SPDX-License-Identifier: Apache-2.0
"""README's pictures and its table of three numbers, made from bench/results."""
