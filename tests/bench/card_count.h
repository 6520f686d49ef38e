/* Counting on a card, every way of looking up, and seeds made there from sequence. */
#pragma once

#include "tests/bench/card.h"

/* Of c->source, by what c->index has. */
cudaError_t card_call_count(struct card *card);

/* Reads at random places of the table, 10^9 a second. */
double card_sector_rate(struct card *card);

/* Measures and checks all ways; leaves the quickest for windows set. */
void card_run_count(struct card *card);

/* Seeds of a batch of the engine's size, alone and with their counts by every way. */
#define CARD_POSITIONS UINT64_C(250000)
void card_run_seeding(struct card *card);
