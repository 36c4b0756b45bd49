/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MPIB_TOP_SCREEN_H
#define MPIB_TOP_SCREEN_H

/* The interactive screen, until the user leaves. Exit status; a failure is
 * told on stderr, below the screen as it was. seconds between samples. */
int top_screen(const char *run_dir, unsigned tab, double seconds);

#endif
