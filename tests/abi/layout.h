/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compile-time checks of the interface headers, the same for C11 and C++20.
 */
#ifndef TESTS_ABI_LAYOUT_H_
#define TESTS_ABI_LAYOUT_H_

#include <stddef.h>

#ifdef __cplusplus
#define ABI_ASSERT(x) static_assert(x, #x)
#else
#define ABI_ASSERT(x) _Static_assert(x, #x)
#endif

#define SIZE(type, bytes) ABI_ASSERT(sizeof(type) == (bytes));
#define OFFSET(type, member, bytes) ABI_ASSERT(offsetof(type, member) == (bytes));
#define IOCTL(name, number) ABI_ASSERT((unsigned long)(name) == (number));

#endif /* TESTS_ABI_LAYOUT_H_ */
