#pragma once

/* The listening sockets that systemd passed, matched to the doors of the configuration by where
 * they listen. */

#include "config.h"
#include "server.h"

/* ret_doors[door] is a descriptor or -1. A passed socket that belongs to no door is closed and
 * logged. Removes the variables that announced them, so that no child believes they are its own. */
void inherited_sockets(const struct config *config, int ret_doors[DOOR_MAX]);
