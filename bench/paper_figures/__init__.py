# SPDX-License-Identifier: Apache-2.0
"""The paper's figures and tables, one command each: measured with the parts of tools/demo, kept in bench/results."""
