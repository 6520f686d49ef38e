/* Answers of DNS, whatever the bytes: refused, or servers in order of rank, each with a host and a
 * port. */
#include "client/srv.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hspz_server_list list = {0};
    struct hspz_error err = {0};
    const enum hspz_status status = hspz_srv_parse("name", data, size, true, &list, &err);
    HSPZ_REQUIRE(status == HSPZ_OK || status == HSPZ_E_BAD_REQUEST || status == HSPZ_E_NO_SERVER ||
                 status == HSPZ_E_TOO_LARGE);
    HSPZ_REQUIRE(status == HSPZ_OK || err.text[0] != '\0');
    HSPZ_REQUIRE(status != HSPZ_OK || list.count > 0);
    for (size_t i = 0; i < list.count; i++) {
        const struct hspz_named_server *server = &list.items[i];
        const int port = atoi(server->address.port);
        const unsigned before = i > 0 ? list.items[i - 1].rank : 0;
        HSPZ_REQUIRE(server->address.tcp && server->address.tls && server->address.host[0] != '\0');
        HSPZ_REQUIRE(port >= 1 && port <= 65535);
        HSPZ_REQUIRE(server->rank == before || server->rank == before + 1);
    }
    hspz_server_list_fini(&list);
    return 0;
}
