# SPDX-License-Identifier: Apache-2.0
"""KV-cache objects natively: what reads them, what is measured, and the policy beside them."""
