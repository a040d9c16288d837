# SPDX-License-Identifier: Apache-2.0
"""Loads a model to a GPU natively and through PPC, on a machine that has nothing but this tree."""
