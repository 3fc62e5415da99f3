#pragma once

/* Callers that wait for a reload: see api-reload.c. */

struct door;
struct server;

/* The door closes: answer those who came by it now. */
void reload_waits_cancel(struct server *s, const struct door *door);
