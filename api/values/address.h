#pragma once

/* The one spelling of an address: IPv6 as RFC 5952 writes it, all else as it is. buffer has
 * USHER_TEXT_MAX bytes and is used where the spelling differs. */
const char *address_canonical(const char *text, char *buffer);
