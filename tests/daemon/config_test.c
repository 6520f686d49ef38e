#include "daemon/config.h"

#include "tests/support/failing_malloc.h"
#include "tests/support/test.h"

#define ARGS(...) ((char *[]){"hspzd", __VA_ARGS__, NULL})

static enum hspz_status
load(struct hspz_config *config, char **argv, struct hspz_error *err)
{
    int argc = 0;
    while (argv[argc] != NULL) {
        argc++;
    }
    hspz_config_init(config);
    return hspz_config_load(config, argc, argv, err);
}

static void
write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* The error that a file of this content gives. */
static enum hspz_status
load_text(const char *text, struct hspz_config *config, struct hspz_error *err)
{
    char *dir = test_tmpdir_make();
    char *path = test_path(dir, "c.json");
    write_file(path, text);
    const enum hspz_status status = load(config, ARGS("--config", path), err);
    free(path);
    test_tmpdir_remove(&dir);
    return status;
}

static void
test_flags_are_refused_by_name_and_value(void **state)
{
    (void)state;
    static const struct {
        char *flag, *value;
        const char *says;
    } rows[] = {
        {"--max-jobs", "8x", "--max-jobs: \"8x\" is not a whole number from 0"},
        {"--max-jobs", "-1", "--max-jobs: \"-1\""},
        {"--max-jobs", "1.5", "--max-jobs: \"1.5\""},
        {"--max-jobs", "", "--max-jobs: \"\""},
        {"--max-jobs", " 8", "--max-jobs: \" 8\""},
        {"--max-jobs", "1K", "--max-jobs: \"1K\""},
        {"--max-jobs", "18446744073709551616", "\"18446744073709551616\""},
        {"--part-bytes", "65535", "from 65536 to 8388608"},
        {"--part-bytes", "65537", "65537 is not a multiple of 8"},
        {"--part-bytes", "9M", "\"9M\" is not a whole number"},
        {"--memory", "1T", "\"1T\""},
        {"--memory", "1k", "\"1k\""},
        {"--memory", "1GG", "\"1GG\""},
        {"--memory", "17179869184G", "\"17179869184G\""},
        {"--threads", "1025", "from 0 to 1024"},
        {"--engine", "gpu", "--engine: \"gpu\" is not one of auto|cpu|cuda"},
        {"--log-format", "JSON", "--log-format: \"JSON\" is not one of text|json"},
        {"--listen", "localhost", "\"localhost\" is not HOST:PORT"},
        {"--listen", "localhost:65536", "is not HOST:PORT"},
        {"--listen", "::1:80", "is not HOST:PORT"},
        {"--listen", "[::1]80", "is not HOST:PORT"},
        {"--listen", ":80", "is not HOST:PORT"},
        {"--index", "apple", "--index: \"apple\" is not NAME=FILE"},
        {"--index", "=file", "is no index name"},
        {"--index", "a/b=file", "is no index name"},
        {"--index", "a=", "index \"a\" has no file"},
        {"--devices", "gpu0", "--devices: \"gpu0\" is no device"},
        {"--devices", "0,", "\"\" is no device"},
        {"--devices", "1,1", "device 1 is named twice"},
        {"--memory", "10Q", "K, M or G may follow"},
        {"--nonsense", "1", "unknown option --nonsense"},
        {"--insecure", "maybe", "--insecure: \"maybe\" is not one of no|yes"},
        {"--socket-mode", "660x", "socket_mode: \"660x\" is not an octal mode"},
        {"--socket-mode", "0888", "socket_mode: \"0888\" is not an octal mode"},
        {"--socket-mode", "1777", "socket_mode: \"1777\" is not an octal mode"},
        {"--socket-mode", "0060", "from 0600 to 0777"},
        {"--tls-certificate", "c", "tls_certificate and tls_key need each other"},
        {"--tls-key", "k", "tls_certificate and tls_key need each other"},
        {"--tls-client-ca", "a", "tls_client_ca needs tls_certificate"},
        {"--help=1", "x", "--help takes no value"},
        {"word", "x", "unexpected argument \"word\""},
        {"--", "x", "unexpected argument \"--\""},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct hspz_config config;
        struct hspz_error err = {0};
        assert_int_equal(load(&config, ARGS(rows[i].flag, rows[i].value), &err),
                         HSPZ_E_BAD_REQUEST);
        if (strstr(err.text, rows[i].says) == NULL) {
            fail_msg("%s %s: \"%s\" does not say \"%s\"", rows[i].flag, rows[i].value, err.text,
                     rows[i].says);
        }
        hspz_config_fini(&config);
    }
    struct hspz_config config;
    struct hspz_error err = {0};
    assert_int_equal(load(&config, ARGS("--max-jobs"), &err), HSPZ_E_BAD_REQUEST);
    assert_non_null(strstr(err.text, "--max-jobs needs a value"));
    hspz_config_fini(&config);
}

static void
test_files_are_refused_by_line_or_key_and_value(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } rows[] = {
        {"", "line 1:"},
        {"\xef\xbb\xbf{}", "line 1:"},
        {"{\n\"threads\": 1,\n}", "line 3:"},
        {"{\n\"threads\": 1\n\"memory\": 2}", "line 3:"},
        {"{\"threads\": 18446744073709551615}", "line 1: too big integer"},
        {"{\"threads\": 1}{", "line 1:"},
        {"[]", "not a JSON object"},
        {"{\"threads\": 1, \"threads\": 2}", "duplicate"},
        {"{\"thread\": 1}", "line 1: unknown key \"thread\""},
        {"{\"max_jobs\": 1e10}", "max_jobs: 10000000000.0 is not a whole number"},
        {"{\"max_jobs\": 1.5}", "max_jobs: 1.5 is not a whole number"},
        {"{\"max_jobs\": \"8\"}", "max_jobs: \"8\" is not a whole number"},
        {"{\"max_jobs\": -1}", "max_jobs: -1 is not a whole number"},
        {"{\"max_jobs\": true}", "max_jobs: true is not a whole number"},
        {"{\"max_jobs\": null}", "max_jobs: null is not a whole number"},
        {"{\"max_jobs\": 4294967296}", "max_jobs: 4294967296 is not a whole number from 0"},
        {"{\"memory\": \"1Q\"}", "memory: \"1Q\" is not a whole number"},
        {"{\"memory\": \"-1G\"}", "K, M or G may follow"},
        {"{\n\n\"max_jobs\": \"1K\"}", "line 3: max_jobs: \"1K\" is not a whole number"},
        {"{\"x\":\n[{\"threads\":1}], \"threads\"\n: \"x\"}", "line 1: unknown key \"x\""},
        {"{\"socket\":\n\"threads\",\n\"threads\"\n: \"x\"}", "line 3: threads: \"x\""},
        {"{\"socket\": \"a\\\"\\\\\",\n\"engine\": 1}", "line 2: engine: 1"},
        {"{\"indexes\": {\"a\": \"f\",\n\n\"b\":\n 1}}", "line 3: indexes.b: 1 is not a file"},
        {"{\"index\": {}}", "line 1: unknown key \"index\"; did you mean \"indexes\"?"},
        {"{\n\"max-jobs\": 1}", "line 2: unknown key \"max-jobs\"; did you mean \"max_jobs\"?"},
        {"{\"thraeds\": 1}", "did you mean \"threads\"?"},
        {"{\"nonsense_of_mine\": 1}", "(hspzd --help all has them)"},
        {"{\"devices\": 1}", "devices: 1 is not a list of devices"},
        {"{\"devices\": [true]}", "devices: true is not a device"},
        {"{\"devices\": [-1]}", "devices: \"-1\" is no device"},
        {"{\"devices\": [0, \"0\"]}", "devices: device 0 is named twice"},
        {"{\"lanes\": 17}", "lanes: 17 is not a whole number from 0 to 16"},
        {"{\"memory\": 9223372036854775807}", "memory: 9223372036854775807"},
        {"{\"engine\": \"tpu\"}", "engine: \"tpu\" is not one of"},
        {"{\"engine\": 1}", "engine: 1 is not a text"},
        {"{\"engine\": true}", "engine: \"yes\" is not one of"},
        {"{\n\"insecure\": 1}", "line 2: insecure: 1 is not a text"},
        {"{\"socket\": 1}", "socket: 1 is not a text"},
        {"{\"listen\": \"127.0.0.1:1\"}", "listen: \"127.0.0.1:1\" is not a list"},
        {"{\"listen\": [1]}", "listen: 1 is not a text"},
        {"{\"listen\": [\"x\"]}", "listen: \"x\" is not HOST:PORT"},
        {"{\"indexes\": []}", "indexes: [] is not an object"},
        {"{\"indexes\": {\"a\": 1}}", "indexes.a: 1 is not a file name"},
        {"{\"indexes\": {\"a=b\": \"f\"}}", "is no index name"},
        {"{\"config\": \"x\"}", "unknown key \"config\""},
        {"{\"groups\": {}}", "line 1: groups: {} is not a list of at least one group"},
        {"{\"groups\": []}", "groups: [] is not a list of at least one group"},
        {"{\"groups\": [7]}", "7 is not a group, an object with devices and indexes"},
        {"{\"groups\": [\n{\"devices\": [0]}]}", "line 2: groups: one has no indexes"},
        {"{\"groups\": [\n{\"indexes\": [\"a\"]}]}", "line 2: groups: one has no devices"},
        {"{\"groups\": [{\"devices\": []}]}", "devices: [] is not a list of at least one device"},
        {"{\"groups\": [{\"devices\": [1, 0, 1]}]}", "groups: devices: device 1 is named twice"},
        {"{\"groups\": [{\"devices\": [-1]}]}", "devices: -1 is not a device by its place"},
        {"{\"groups\": [{\"devices\": [\"0\"]}]}", "devices: \"0\" is not a device by its place"},
        {"{\"groups\": [{\"indexes\": \"a\"}]}",
         "indexes: \"a\" is not a list of at least one index"},
        {"{\"groups\": [{\"indexes\": [\"a/b\"]}]}",
         "indexes: \"a/b\" is not the name of an index"},
        {"{\"groups\": [{\"devices\": [0], \"indexes\": [\"a\"]},\n{\"indexes\": [\"b\", \"a\"]}]}",
         "line 2: groups: indexes: index \"a\" is named twice"},
        {"{\"groups\": [{\"placement\": \"all\"}]}",
         "placement: \"all\" is not one of replicate|split|blocks"},
        {"{\"groups\": [{\"placement\": 1}]}", "placement: 1 is not a text"},
        {"{\"groups\": [{\n\"bogus\": 1}]}",
         "line 2: groups: bogus: there is no such key (devices, indexes, placement)"},
        {"{\"tenants\": {}}", "line 1: tenants: {} is not a list of at least one tenant"},
        {"{\n\"tenants\": []}", "line 2: tenants: [] is not a list of at least one tenant"},
        {"{\"tenants\": [7]}", "7 is not a tenant"},
        {"{\"tenants\": [\n{\"uids\": 1}]}", "line 2: tenants: one has no name"},
        {"{\"metrics\": \"\",\n\"tenants\": [\n{\"name\": \"a\", \"uids\": [1]},\n{\"name\": "
         "\"b\",\n"
         "\"uids\": [2]}, {\"name\": \"c\",\n\n\"weight\": 0}]}",
         "line 7: tenants: weight: 0"},
        {"{\"tenants\": [{\"name\": \"a\",\n\"uids\": [1]},\n{\"name\": \"b\",\n\"uids\": "
         "[2]},\n{}]}",
         "line 5: tenants: one has no name"},
        {"{\"tenants\": [\n{\"name\": \"a\"}]}", "line 2: tenants: \"a\" cannot be recognised"},
        {"{\"tenants\": [{\"name\": \"a b\"}]}", "tenants: name: \"a b\" is not a name"},
        {"{\"tenants\": [{\"name\": \"\"}]}", "tenants: name: \"\" is not a name"},
        {"{\"tenants\": [{\"name\": 1}]}", "tenants: name: 1 is not a name"},
        {"{\"tenants\": [\n{\"name\": \"a\", \"uids\": [1]},\n{\"name\":\n\"a\"}]}",
         "line 3: tenants: name: tenant \"a\" is named twice"},
        {"{\"tenants\": [\n{\"name\": \"a\", \"uids\": [1]},\n{\n\"uids\": [2, 1]}]}",
         "line 4: tenants: uids: names what tenant \"a\" is recognised by"},
        {"{\"tenants\": [{\"name\": \"a\",\n\"role\": \"root\"}]}",
         "line 2: tenants: role: \"root\" is not one of user|operator"},
        {"{\"tenants\": [{\"role\": 1}]}", "tenants: role: 1 is not a text"},
        {"{\"tenants\": [{\"weight\": 0}]}", "weight: 0 is not a whole number from 1 to 1000"},
        {"{\"tenants\": [{\"weight\": 1001}]}", "weight: 1001 is not a whole number"},
        {"{\"tenants\": [{\"device_share\": 101}]}", "device_share: 101 is not a whole number"},
        {"{\"tenants\": [{\"max_queued_bytes\": \"1T\"}]}", "max_queued_bytes: \"1T\""},
        {"{\"tenants\": [{\"max_jobs\": \"1K\"}]}", "max_jobs: \"1K\" is not a whole number"},
        {"{\"tenants\": [{\"uids\": \"root\"}]}", "uids: \"root\" is not a user's number"},
        {"{\"tenants\": [{\"uids\": -1}]}", "uids: -1 is not a user's number"},
        {"{\"tenants\": [{\"uids\": 4294967295}]}", "uids: 4294967295 is not a user's number"},
        {"{\"tenants\": [{\"gids\": [4294967296]}]}", "gids: 4294967296 is not a group's"},
        {"{\"tenants\": [{\"gids\": 65534}]}", "gids: 65534 is what the kernel shows"},
        {"{\"tenants\": [{\"uids\": 65534}]}", "uids: 65534 is what the kernel shows"},
        {"{\"tenants\": [{\"token_sha256\": \"secret\"}]}", "token_sha256: not a SHA-256"},
        {"{\"tenants\": [{\"certificate_sha256\": \"00:11\"}]}", "certificate_sha256: not a SHA"},
        {"{\"tenants\": [{\"users\": 1}]}", "tenants: users: there is no such key (name, role"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct hspz_config config;
        struct hspz_error err = {0};
        assert_int_equal(load_text(rows[i].text, &config, &err), HSPZ_E_BAD_FILE);
        if (strstr(err.text, rows[i].says) == NULL || strstr(err.text, "c.json: ") == NULL) {
            fail_msg("%s: \"%s\" does not say \"%s\"", rows[i].text, err.text, rows[i].says);
        }
        hspz_config_fini(&config);
    }
}

#define TENANTS_TEXT                                                                               \
    "{\"tls_certificate\": \"c\", \"tls_key\": \"k\", \"tls_client_ca\": \"a\", \"insecure\": "    \
    "true,"                                                                                        \
    "\"tenants\": [{\"name\": \"lab\", \"role\": \"operator\", \"uids\": [0, 1000], \"weight\": "  \
    "3},"                                                                                          \
    "{\"name\": \"b-2.c_\", \"gids\": 7, \"max_jobs\": 5, \"max_queued_bytes\": \"1M\","           \
    " \"max_resident_bytes\": 9, \"device_share\": 25, \"token_sha256\":"                          \
    " [\"000102030405060708090a0b0c0d0e0f101112131415161718191A1B1C1D1E1F\"],"                     \
    " \"certificate_sha256\": \"ff:01:02:03:04:05:06:07:08:09:0a:0b:0c:0d:0e:0f:10:11:12:13:14:"   \
    "15:16:17:18:19:1A:1B:1C:1D:1E:1F\"}]}"

static void
test_tenants_are_read_with_their_limits(void **state)
{
    (void)state;
    struct hspz_config config;
    struct hspz_error err = {0};
    if (load_text(TENANTS_TEXT, &config, &err) != HSPZ_OK) {
        fail_msg("%s", err.text);
    }
    assert_true(config.has_tenants);
    assert_int_equal(config.tenant_count, 2);
    assert_int_equal(config.insecure, 1);
    assert_true(hspz_config_serves_network(&config));
    assert_int_equal(hspz_config_socket_mode(&config), 0666);
    const struct hspz_tenant_settings *lab = &config.tenants[0], *b = &config.tenants[1];
    assert_string_equal(lab->name, "lab");
    assert_int_equal(lab->role, HSPZ_ROLE_OPERATOR);
    assert_int_equal(lab->weight, 3);
    assert_int_equal(lab->max_jobs + lab->max_queued_bytes + lab->max_resident_bytes, 0);
    assert_int_equal(lab->credential_count, 2);
    assert_int_equal(lab->credentials[1].kind, HSPZ_CREDENTIAL_UID);
    assert_int_equal(lab->credentials[1].id, 1000);
    assert_string_equal(b->name, "b-2.c_");
    assert_int_equal(b->role, HSPZ_ROLE_USER);
    assert_int_equal(b->weight, 1);
    assert_int_equal(b->max_jobs, 5);
    assert_int_equal(b->max_queued_bytes, 1 << 20);
    assert_int_equal(b->max_resident_bytes, 9);
    assert_int_equal(b->device_share, 25);
    assert_int_equal(b->credential_count, 3);
    assert_int_equal(b->credentials[0].kind, HSPZ_CREDENTIAL_GID);
    assert_int_equal(b->credentials[1].kind, HSPZ_CREDENTIAL_TOKEN);
    assert_int_equal(b->credentials[2].kind, HSPZ_CREDENTIAL_CERTIFICATE);
    for (unsigned i = 0; i < HSPZ_SHA256_BYTES; i++) {
        assert_int_equal(b->credentials[1].sha256[i], i);
        assert_int_equal(b->credentials[2].sha256[i], i == 0 ? 255 : i);
    }
    hspz_config_fini(&config);
    assert_int_equal(load(&config, ARGS("--tenants", "x"), &err), HSPZ_E_BAD_REQUEST);
    assert_non_null(strstr(err.text, "in the file that --config names"));
    hspz_config_fini(&config);
}

/* A secret that was written where its hash belongs. */
static void
test_a_token_is_never_shown(void **state)
{
    (void)state;
    struct hspz_config config;
    struct hspz_error err = {0};
    assert_int_equal(load_text("{\"tenants\": [{\"token_sha256\": [\"hunter2\"]}]}", &config, &err),
                     HSPZ_E_BAD_FILE);
    assert_null(strstr(err.text, "hunter2"));
    hspz_config_fini(&config);
}

static void
test_the_socket_is_as_open_as_what_is_behind_it_tells_peers_apart(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        unsigned mode;
        bool network;
    } rows[] = {
        {"{}", 0600, false},
        {"{\"insecure\": true}", 0600, false},
        {"{\"tls_certificate\": \"c\", \"tls_key\": \"k\"}", 0600, false},
        {"{\"tenants\": [{\"name\": \"a\", \"uids\": 1}]}", 0666, false},
        {"{\"tenants\": [{\"name\": \"a\", \"uids\": 1}], \"socket_group\": \"x\"}", 0660, false},
        {"{\"tenants\": [{\"name\": \"a\", \"uids\": 1}], \"socket_mode\": \"600\"}", 0600, false},
        {"{\"tenants\": [{\"name\": \"a\", \"uids\": 1}], \"insecure\": true}", 0666, true},
        {"{\"tenants\": [{\"name\": \"a\", \"uids\": 1}], \"insecure\": false}", 0666, false},
        {"{\"tenants\": [{\"name\": \"a\", \"uids\": 1}], \"tls_certificate\": \"c\","
         " \"tls_key\": \"k\"}",
         0666, true},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct hspz_config config;
        struct hspz_error err = {0};
        assert_int_equal(load_text(rows[i].text, &config, &err), HSPZ_OK);
        assert_int_equal(hspz_config_socket_mode(&config), rows[i].mode);
        assert_int_equal(hspz_config_serves_network(&config), rows[i].network);
        hspz_config_fini(&config);
    }
}

#define GROUPS_TEXT                                                                                \
    "{\"groups\": [{\"devices\": [3, 1], \"indexes\": [\"a\", \"b\"], \"placement\": \"blocks\"}," \
    "\n{\"indexes\": [\"c d\"], \"devices\": [0]}]}"

static void
test_groups_name_their_devices_and_indexes(void **state)
{
    (void)state;
    struct hspz_config config, other;
    struct hspz_error err = {0};
    assert_int_equal(load_text(GROUPS_TEXT, &config, &err), HSPZ_OK);
    assert_int_equal(config.group_count, 2);
    const struct hspz_config_group *b = hspz_config_group_of(&config, "b"),
                                   *c = hspz_config_group_of(&config, "c d");
    assert_null(hspz_config_group_of(&config, "c"));
    assert_ptr_equal(b, &config.groups[0]);
    assert_ptr_equal(c, &config.groups[1]);
    assert_int_equal(b->device_count, 2);
    assert_int_equal(b->devices[0], 3);
    assert_int_equal(b->devices[1], 1);
    assert_int_equal(b->placement, HSPZ_PLACE_BLOCKS);
    assert_int_equal(c->placement, HSPZ_PLACE_REPLICATE);
    assert_int_equal(hspz_config_groups_check(&config, 4, &err), HSPZ_OK);
    assert_int_equal(hspz_config_groups_check(&config, 3, &err), HSPZ_E_BAD_REQUEST);
    assert_non_null(strstr(err.text, "line 1: groups: the one of index \"a\" has device 3, and "
                                     "there are 3"));
    config.groups[0].device_count = 0;
    assert_int_equal(hspz_config_groups_check(&config, 0, &err), HSPZ_E_BAD_REQUEST);
    assert_non_null(strstr(err.text, "line 2: groups: the one of index \"c d\" has device 0"));
    config.groups[0].device_count = 2;
    assert_int_equal(load_text(GROUPS_TEXT, &other, &err), HSPZ_OK);
    assert_true(hspz_config_groups_same(&config, &other));
    other.groups[0].devices[1] = 2;
    assert_false(hspz_config_groups_same(&config, &other));
    hspz_config_fini(&config);
    hspz_config_fini(&other);
    assert_int_equal(load(&config, ARGS("--groups", "x"), &err), HSPZ_E_BAD_REQUEST);
    assert_non_null(strstr(err.text, "--groups: groups stand in the file"));
    hspz_config_fini(&config);
}

/* Loads the text with each allocation failing once; how many there were, and one. */
static long
fail_each_allocation(const char *text)
{
    long n = 1;
    for (bool failed = true; failed; n++) {
        struct hspz_config config;
        struct hspz_error err = {0};
        failing_malloc_arm(n);
        const enum hspz_status status = load_text(text, &config, &err);
        failed = failing_malloc_disarm();
        assert_int_equal(status == HSPZ_OK, !failed);
        hspz_config_fini(&config);
    }
    return n;
}

static void
test_tenants_survive_each_failing_allocation(void **state)
{
    (void)state;
    assert_true(fail_each_allocation(TENANTS_TEXT) > 8);
}

static void
test_groups_survive_each_failing_allocation(void **state)
{
    (void)state;
    assert_true(fail_each_allocation(GROUPS_TEXT) > 6);
}

static void
test_deep_nesting_is_an_error(void **state)
{
    (void)state;
    const size_t depth = 100000;
    char *text = malloc(depth + 1);
    assert_non_null(text);
    memset(text, '[', depth);
    text[depth] = '\0';
    struct hspz_config config;
    struct hspz_error err = {0};
    assert_int_equal(load_text(text, &config, &err), HSPZ_E_BAD_FILE);
    hspz_config_fini(&config);
    free(text);
}

static void
test_missing_file_is_named(void **state)
{
    (void)state;
    struct hspz_config config;
    struct hspz_error err = {0};
    assert_int_equal(load(&config, ARGS("--config", "/nonexistent/x.json"), &err), HSPZ_E_IO);
    assert_non_null(strstr(err.text, "/nonexistent/x.json: No such file"));
    hspz_config_fini(&config);
}

static void
test_flags_win_over_the_file_and_lists_add_up(void **state)
{
    (void)state;
    char *dir = test_tmpdir_make();
    char *path = test_path(dir, "c.json");
    write_file(path, "{\"threads\": 3, \"memory\": 5000000000, \"socket\": \"/a\","
                     " \"listen\": [\"127.0.0.1:1\"], \"indexes\": {\"x\": \"fx\", \"y\": \"fy\"},"
                     " \"device_memory\": \"5G\", \"devices\": [3, \"GPU-1b2c\"],"
                     " \"engine\": \"cuda\", \"log_format\": \"json\", \"max_jobs\": 0}");
    struct hspz_config config;
    struct hspz_error err = {0};
    assert_int_equal(load(&config,
                          ARGS("--threads=4", "--config", path, "--listen", "[::1]:0", "--index",
                               "z=f=z", "--devices", "0,MIG-7", "--part-bytes", "64K",
                               "--job-memory", "2G", "--buffer-memory", "3M"),
                          &err),
                     HSPZ_OK);
    assert_int_equal(config.threads, 4);
    assert_int_equal(config.memory, 5000000000);
    assert_int_equal(config.max_jobs, 0);
    assert_string_equal(config.socket_path, "/a");
    assert_false(config.socket_is_default);
    assert_int_equal(config.listen_count, 2);
    assert_string_equal(config.listen[0], "127.0.0.1:1");
    assert_string_equal(config.listen[1], "[::1]:0");
    assert_int_equal(config.index_count, 3);
    assert_string_equal(config.indexes[2].name, "z");
    assert_string_equal(config.indexes[2].path, "f=z");
    assert_int_equal(config.engine, HSPZ_ENGINE_CUDA);
    assert_int_equal(config.log_format, HSPZ_LOG_JSON);
    assert_int_equal(config.device_memory, UINT64_C(5) << 30);
    assert_int_equal(config.device_count, 4);
    assert_string_equal(config.devices[0], "3");
    assert_string_equal(config.devices[1], "GPU-1b2c");
    assert_string_equal(config.devices[3], "MIG-7");
    assert_int_equal(config.part_bytes, 65536);
    assert_int_equal(config.job_memory, UINT64_C(2) << 30);
    assert_int_equal(config.buffer_memory, 3 << 20);
    hspz_config_fini(&config);

    assert_int_equal(load(&config, ARGS("--config", path, "--index", "x=other"), &err),
                     HSPZ_E_BAD_REQUEST);
    assert_non_null(strstr(err.text, "index \"x\" is named twice"));
    hspz_config_fini(&config);
    free(path);
    test_tmpdir_remove(&dir);
}

static void
test_most_hsps_follow_the_memory_of_jobs(void **state)
{
    (void)state;
    static const struct {
        char *option, *value;
        uint64_t most;
    } cases[] = {{"--threads", "1", 1 << 24},
                 {"--job-memory", "64M", 1 << 20},
                 {"--max-hsps", "7", 7},
                 {"--max-hsps", "0", 1 << 24}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hspz_config config;
        struct hspz_error err = {0};
        assert_int_equal(load(&config, ARGS(cases[i].option, cases[i].value), &err), HSPZ_OK);
        assert_int_equal(hspz_config_max_hsps(&config), cases[i].most);
        hspz_config_fini(&config);
    }
}

static void
test_default_socket_is_in_the_runtime_folder(void **state)
{
    (void)state;
    struct hspz_config config;
    struct hspz_error err = {0};
    assert_int_equal(setenv("XDG_RUNTIME_DIR", "/run/user/77", 1), 0);
    assert_int_equal(load(&config, ARGS("--threads", "1"), &err), HSPZ_OK);
    assert_string_equal(config.socket_path, "/run/user/77/hspz.sock");
    assert_true(config.socket_is_default);
    hspz_config_fini(&config);

    assert_int_equal(unsetenv("XDG_RUNTIME_DIR"), 0);
    assert_int_equal(load(&config, ARGS("--threads", "1"), &err), HSPZ_OK);
    assert_string_equal(config.socket_path, "/run/hspz/hspz.sock");
    hspz_config_fini(&config);

    assert_int_equal(load(&config, ARGS("--socket", ""), &err), HSPZ_OK);
    assert_string_equal(config.socket_path, "");
    assert_false(config.socket_is_default);
    hspz_config_fini(&config);
}

static void
test_listen_addresses_are_split(void **state)
{
    (void)state;
    char host[HSPZ_LISTEN_HOST_BYTES];
    uint16_t port = 1;
    struct hspz_error err;
    assert_int_equal(hspz_listen_parse("[::1]:0", host, &port, &err), HSPZ_OK);
    assert_string_equal(host, "::1");
    assert_int_equal(port, 0);
    assert_int_equal(hspz_listen_parse("localhost:65535", host, &port, &err), HSPZ_OK);
    assert_string_equal(host, "localhost");
    assert_int_equal(port, 65535);
    assert_int_equal(hspz_listen_parse("[]:1", host, &port, &err), HSPZ_E_BAD_REQUEST);
    assert_int_equal(hspz_listen_parse("a:000001", host, &port, &err), HSPZ_E_BAD_REQUEST);
}

static void
test_config_survives_each_failing_allocation(void **state)
{
    (void)state;
    long n = 1;
    for (bool failed = true; failed; n++) {
        struct hspz_config config;
        struct hspz_error err = {0};
        failing_malloc_arm(n);
        const enum hspz_status status =
            load(&config,
                 ARGS("--listen", "127.0.0.1:1", "--listen", "[::1]:2", "--index", "a=b", "--index",
                      "c=d", "--socket", "/s", "--devices", "0,1"),
                 &err);
        failed = failing_malloc_disarm();
        assert_int_equal(status, failed ? HSPZ_E_OUT_OF_MEMORY : HSPZ_OK);
        hspz_config_fini(&config);
    }
    assert_true(n > 4);
}

static void
test_devices_beside_an_engine_without_them_are_refused(void **state)
{
    (void)state;
    char *dir = test_tmpdir_make();
    char *path = test_path(dir, "c.json");
    write_file(path, "{\"devices\": [1]}");
    const struct {
        char **argv;
        const char *says; /* NULL: nothing is wrong */
    } rows[] = {
        {ARGS("--engine", "cpu", "--devices", "0"),
         "devices: only the cuda engine has such, not cpu"},
        {ARGS("--config", path, "--engine", "cpu"),
         "devices: only the cuda engine has such, not cpu"},
        {ARGS("--simulate-devices", "2x0", "--devices", "0,1"),
         "devices: simulate_devices stands for them"},
        {ARGS("--config", path, "--simulate-devices", "2x0"),
         "devices: simulate_devices stands for them"},
        {ARGS("--simulate-devices", "2x0", "--engine", "cuda"),
         "simulate_devices: only the cpu engine has such, not cuda"},
        {ARGS("--config", path), NULL},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct hspz_config config;
        struct hspz_error err = {0};
        const enum hspz_status status = load(&config, rows[i].argv, &err);
        assert_int_equal(status, rows[i].says != NULL ? HSPZ_E_BAD_REQUEST : HSPZ_OK);
        if (rows[i].says != NULL && strstr(err.text, rows[i].says) == NULL) {
            fail_msg("\"%s\" does not say \"%s\"", err.text, rows[i].says);
        }
        hspz_config_fini(&config);
    }
    free(path);
    test_tmpdir_remove(&dir);
}

static void
test_chunk_walk_comes_from_the_environment(void **state)
{
    (void)state;
    struct hspz_config config;
    struct hspz_error err = {0};
    static const struct {
        const char *value;
        enum hspz_status status;
        bool full;
    } rows[] = {{"full", HSPZ_OK, true},
                {"blocks", HSPZ_OK, false},
                {"", HSPZ_OK, false},
                {"half", HSPZ_E_BAD_REQUEST, false}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(setenv("HSPZ_CHUNK_WALK", rows[i].value, 1), 0);
        assert_int_equal(load(&config, ARGS("--threads", "1"), &err), rows[i].status);
        assert_int_equal(config.walk_full, rows[i].full);
        hspz_config_fini(&config);
    }
    assert_non_null(strstr(err.text, "HSPZ_CHUNK_WALK: \"half\""));
    assert_int_equal(unsetenv("HSPZ_CHUNK_WALK"), 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flags_are_refused_by_name_and_value),
        cmocka_unit_test(test_files_are_refused_by_line_or_key_and_value),
        cmocka_unit_test(test_tenants_are_read_with_their_limits),
        cmocka_unit_test(test_a_token_is_never_shown),
        cmocka_unit_test(test_the_socket_is_as_open_as_what_is_behind_it_tells_peers_apart),
        cmocka_unit_test(test_tenants_survive_each_failing_allocation),
        cmocka_unit_test(test_groups_name_their_devices_and_indexes),
        cmocka_unit_test(test_groups_survive_each_failing_allocation),
        cmocka_unit_test(test_deep_nesting_is_an_error),
        cmocka_unit_test(test_missing_file_is_named),
        cmocka_unit_test(test_flags_win_over_the_file_and_lists_add_up),
        cmocka_unit_test(test_most_hsps_follow_the_memory_of_jobs),
        cmocka_unit_test(test_default_socket_is_in_the_runtime_folder),
        cmocka_unit_test(test_listen_addresses_are_split),
        cmocka_unit_test(test_config_survives_each_failing_allocation),
        cmocka_unit_test(test_devices_beside_an_engine_without_them_are_refused),
        cmocka_unit_test(test_chunk_walk_comes_from_the_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
