/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MPIB_TOP_SCREEN_H
#define MPIB_TOP_SCREEN_H

/* Run the interactive screen until the user quits, with `seconds` between two
 * samples. Returns the exit status; if the proxy does not answer at first, a
 * line on stderr says so and no screen is shown. */
int top_screen(const char *run_dir, unsigned tab, double seconds);

#endif
