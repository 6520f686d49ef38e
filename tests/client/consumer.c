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
take_part(void *user, const struct hspz_part_id *id, const uint8_t *anchors, size_t count)
{
    struct count *c = user;
    for (size_t i = 0; i < count; i++) {
        c->sum += HSPZ_ANCHOR_REF(hspz_anchor_at(anchors, i)) + id->ref_block;
    }
    c->anchors += count;
    return true;
}

static bool
take_hsps(void *user, const struct hspz_part_id *id, const uint8_t *hsps, size_t count)
{
    struct count *c = user;
    for (size_t i = 0; i < count; i++) {
        const struct hspz_hsp hsp = hspz_hsp_at(hsps, i);
        c->hsp_sum += hsp.ref_start + hsp.query_start + hsp.length + (uint32_t)hsp.score;
    }
    c->hsps += count;
    return id->batch == 0;
}

static bool
stop_at_once(void *user, const struct hspz_part_id *id, const uint8_t *records, size_t count)
{
    (void)user;
    (void)id;
    (void)records;
    (void)count;
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
        take_part(&count, &part.id, part.records, part.count);
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
    for (int i = 0; i < 3; i++) {
        count = (struct count){0, 0, 0, 0};
        request.encoding = i == 2 ? HSPZ_ENCODING_COLUMNAR : HSPZ_ENCODING_PACKED;
        if (hspz_client_discover(client, &request, take_part, &count, &summary, &err) != HSPZ_OK) {
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
