/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmocka, with the headers that it asks for and that nearly every test uses.
 */
#ifndef MPIB_TESTS_TEST_H
#define MPIB_TESTS_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* What cmocka hands to each test, and few of them want: state. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

#endif
