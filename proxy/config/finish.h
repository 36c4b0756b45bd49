/* SPDX-License-Identifier: Apache-2.0 */
/* Inside config/: the parts of mpib_config_finish(). Start-up, control
 * thread. */
#ifndef MPIB_PROXY_CONFIG_FINISH_H
#define MPIB_PROXY_CONFIG_FINISH_H

#include "config/config.h"

/* layout.c: make devices of HCAs by device.layout, without sup if one. 0, or
 * -EINVAL and one line in why. */
struct mpib_found;
int mpib_config_lay_out(struct mpib_config *cfg, const struct mpib_found *f,
			bool one, char *why);
/* Give a standby rail the share that it has. -EINVAL and one line in why: the
 * settings of the policy say something else. */
int mpib_config_standby(struct mpib_config *cfg, char *why);

/* rails.c: 0, or -errno and one line in why (MPIB_WHY_MAX bytes). */
int mpib_config_rails(struct mpib_config *cfg, char *why);
int mpib_config_policy(struct mpib_config *cfg, char *why);

/* http.c: whether [metrics] can be served, and to those alone who may read. 0, or
 * -EINVAL and one line in why. */
int mpib_config_http(struct mpib_config *cfg, char *why);

#endif
