/* Simulated devices: the processors of this machine shown as several devices of set speeds and
 * failures, so that what goes on over many devices can be tried where there are none.
 *
 * Text:    devices and a comma between: [COUNTx]US[:fails=PARTS | :hangs=PARTS[:for=MS]]. A step on
 *          such a device takes US microseconds or more. Once it has made so many parts it `fails`:
 *          every step ends with HSPZ_E_DEVICE_ERROR. Or it `hangs`: no step that begins then goes
 *          on, ever, or before MS milliseconds from the first of them are over.
 * Threads: one device from all of its lanes. */
#pragma once

#include "protocol/status.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define HSPZ_SIMULATED_LIMIT 1024u

struct hspz_simulated {
    uint64_t step_ns;
    uint64_t fails_after, hangs_after; /* parts; UINT64_MAX: never */
    uint64_t hang_ns;                  /* UINT64_MAX: for ever */
    _Atomic uint64_t parts;            /* made so far */
    _Atomic uint64_t hung_until_ns;    /* 0: it did not hang yet */
};

/* The caller frees *out. HSPZ_E_BAD_REQUEST, HSPZ_E_OUT_OF_MEMORY. */
HSPZ_MUST_USE enum hspz_status hspz_simulated_parse(const char *text, struct hspz_simulated **out,
                                                    unsigned *count, struct hspz_error *err);

/* Around a step on a lane of the device, whose begin *begin_ns becomes. */
HSPZ_MUST_USE enum hspz_status hspz_simulated_begin(struct hspz_simulated *device,
                                                    uint64_t *begin_ns, struct hspz_error *err);
void hspz_simulated_end(struct hspz_simulated *device, uint64_t begin_ns, bool made_part);
