/* SPDX-License-Identifier: Apache-2.0 */
/* What an operator has set while the proxy ran. Control thread. */
#ifndef MPIB_PROXY_HANDOVER_SETTINGS_H
#define MPIB_PROXY_HANDOVER_SETTINGS_H

#include "base/serial.h"

struct mpib_proxy;

/*
 * Settings and shares of clients, packed with what was set and by whom;
 * unpacked they count, whatever files and flags say. A setting that the new one
 * does not know, or refuses, is left as it is and logged: clients matter more.
 * Its clients are there already, its engine is halted.
 */
void mpib_settings_serialize(struct mpib_serial *serial, struct mpib_proxy *p);

#endif
