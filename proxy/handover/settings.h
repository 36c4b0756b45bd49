/* SPDX-License-Identifier: Apache-2.0 */
/* What an operator has set while the proxy ran, handed over to the new proxy.
 * Control thread. */
#ifndef MPIB_PROXY_HANDOVER_SETTINGS_H
#define MPIB_PROXY_HANDOVER_SETTINGS_H

#include "base/serial.h"

struct mpib_proxy;

/*
 * Pack or unpack settings and clients' shares, each with its value and who set
 * it. In the new proxy they override files and flags; its clients have been
 * unpacked before and its engine is halted. A setting that the new proxy does
 * not know, or refuses, keeps its value there and is logged: that is no reason
 * to fail the hand-over.
 */
void mpib_settings_serialize(struct mpib_serial *serial, struct mpib_proxy *p);

#endif
