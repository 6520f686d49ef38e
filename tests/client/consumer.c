/* What a program that uses libhspz looks like; built by test_installed.py against an installed
 * tree. */
#include <hspz/hspz.h>
#include <stdio.h>
#include <string.h>

struct count {
    uint64_t anchors, sum;
    uint64_t hsps, hsp_sum;
};

static bool
take_part(void *user, const struct hspz_part_view *part)
{
    struct count *c = user;
    for (size_t i = 0; i < part->count; i++) {
        c->sum += HSPZ_ANCHOR_REF(hspz_anchor_at(part->records, i)) + part->id.ref_block;
    }
    c->anchors += part->count;
    return true;
}

/* As they came: of each run its anchors, and the same made into packed ones, some at a time. */
static bool
take_columns(void *user, const struct hspz_part_view *part)
{
    struct count *c = user;
    const struct hspz_columns *const columns = &part->columns;
    struct hspz_columns_place place = {0, 0, 0};
    uint8_t packed[3 * HSPZ_ANCHOR_BYTES];
    size_t at = 0;
    for (size_t i = 0; i < columns->run_count; i++) {
        const struct hspz_run run = hspz_run_at(columns, i);
        for (uint32_t k = 0; k < run.count; k++, at++) {
            const size_t in = at % 3;
            if (in == 0) {
                (void)hspz_columns_anchors(columns, &place, packed, 3);
            }
            if (hspz_anchor_at(packed, in) !=
                ((uint64_t)run.query << 32 | hspz_ref_at(columns, at))) {
                return false;
            }
            c->sum += hspz_ref_at(columns, at) + part->id.ref_block;
        }
    }
    c->anchors += at;
    return at == part->count && part->records == columns->runs;
}

static bool
take_hsps(void *user, const struct hspz_part_view *part)
{
    struct count *c = user;
    for (size_t i = 0; i < part->count; i++) {
        const struct hspz_hsp hsp = hspz_hsp_at(part->records, i);
        c->hsp_sum += hsp.ref_start + hsp.query_start + hsp.length + (uint32_t)hsp.score;
    }
    c->hsps += part->count;
    return part->id.batch == 0;
}

static bool
stop_at_once(void *user, const struct hspz_part_view *part)
{
    (void)user;
    (void)part;
    return false;
}

/* Part by part: the sum of a whole discovery, then one that is given up after a part. */
static int
iterate(struct hspz_client *client, const struct hspz_discover_request *request, uint64_t sum)
{
    struct hspz_error err;
    struct hspz_discovery *discovery = NULL;
    struct hspz_part_view part;
    struct hspz_discover_summary summary;
    struct count count = {0, 0, 0, 0};
    if (hspz_client_discover_begin(client, request, &discovery, &err) != HSPZ_OK) {
        return 5;
    }
    while (hspz_client_discover_next(discovery, &part, &err) == HSPZ_OK && part.records != NULL) {
        (request->columns ? take_columns : take_part)(&count, &part);
    }
    hspz_client_discover_end(&discovery, &summary);
    if (discovery != NULL || count.sum != sum || summary.anchors != count.anchors) {
        return 6;
    }
    if (hspz_client_discover_begin(client, request, &discovery, &err) != HSPZ_OK ||
        hspz_client_discover_next(discovery, &part, &err) != HSPZ_OK || part.records == NULL) {
        return 7;
    }
    hspz_client_discover_end(&discovery, &summary);
    return summary.anchors == 0 ? 0 : 8;
}

int
main(int argc, char **argv)
{
    struct hspz_error err;
    struct hspz_address address;
    struct hspz_client *client = NULL;
    struct hspz_discover_summary summary;
    struct count count = {0, 0, 0, 0};
    struct hspz_discover_request request = HSPZ_DISCOVER_REQUEST_DEFAULT;
    if (argc != 3 || hspz_address_parse(argv[1], &address, &err) != HSPZ_OK ||
        hspz_client_open(&address, NULL, &client, &err) != HSPZ_OK) {
        return 1;
    }
    request.index = "ref";
    request.bases.bytes = (const uint8_t *)argv[2];
    request.bases.len = strlen(argv[2]);
    /* A job that is stopped leaves the connection good for the next. */
    if (hspz_client_discover(client, &request, stop_at_once, NULL, &summary, &err) !=
        HSPZ_E_STOPPED) {
        return 2;
    }
    for (int i = 0; i < 4; i++) {
        count = (struct count){0, 0, 0, 0};
        request.encoding = i >= 2 ? HSPZ_ENCODING_COLUMNAR : HSPZ_ENCODING_PACKED;
        request.columns = i == 3;
        if (hspz_client_discover(client, &request, i == 3 ? take_columns : take_part, &count,
                                 &summary, &err) != HSPZ_OK) {
            fprintf(stderr, "%s: %s\n", hspz_status_name(err.status), err.text);
            return 3;
        }
    }
    const int failed = iterate(client, &request, count.sum);
    if (failed != 0) {
        return failed;
    }
    printf("%s %llu %llu %llu", hspz_client_server(client)->version,
           (unsigned long long)summary.anchors, (unsigned long long)count.anchors,
           (unsigned long long)count.sum);
    request.encoding = HSPZ_ENCODING_PACKED;
    request.columns = false;
    request.records = HSPZ_RECORDS_HSPS;
    request.scoring.threshold = 1500;
    if (hspz_client_discover(client, &request, take_hsps, &count, &summary, &err) != HSPZ_OK) {
        fprintf(stderr, "%s: %s\n", hspz_status_name(err.status), err.text);
        return 4;
    }
    printf(" %llu %llu %llu\n", (unsigned long long)summary.hsps, (unsigned long long)count.hsps,
           (unsigned long long)count.hsp_sum);
    hspz_client_close(&client);
    return 0;
}
