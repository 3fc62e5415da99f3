#pragma once

/* Callers that wait for a reload: see api-reload.c. */

struct server;

/* The server stops: answer them now. */
void reload_waits_cancel(struct server *s);
