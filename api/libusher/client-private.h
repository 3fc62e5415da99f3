#pragma once

/* What the parts of libusher see of a client. */

struct transfer;
struct usher_client;

struct transfer *client_transfer(struct usher_client *client);
