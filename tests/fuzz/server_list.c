/* A file of servers, whatever the bytes: refused with its name and line, or addresses that print as
 * text which names the same ones. */
#include "client/server_list.h"

#include <stdio.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hspz_server_list list = {0}, again = {0};
    struct hspz_error err = {0};
    const enum hspz_status status = hspz_server_list_parse(&list, "servers", data, size, &err);
    HSPZ_REQUIRE(list.count <= HSPZ_SERVERS_MOST);
    if (status != HSPZ_OK) {
        HSPZ_REQUIRE(status == HSPZ_E_BAD_REQUEST || status == HSPZ_E_TOO_LARGE);
        HSPZ_REQUIRE(err.status == status && strncmp(err.text, "servers:", 8) == 0);
    }
    for (size_t i = 0; i < list.count; i++) {
        char text[HSPZ_ADDRESS_TEXT_BYTES];
        hspz_address_print(&list.items[i].address, text);
        HSPZ_REQUIRE(hspz_server_list_parse(&again, "again", (const uint8_t *)text, strlen(text),
                                            &err) == HSPZ_OK);
        HSPZ_REQUIRE(again.count == i + 1);
        HSPZ_REQUIRE(memcmp(&again.items[i], &list.items[i], sizeof(list.items[i])) == 0);
    }
    hspz_server_list_fini(&list);
    hspz_server_list_fini(&again);
    return 0;
}
