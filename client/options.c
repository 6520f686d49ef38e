#include "client/options.h"

#include "client/number.h"

#include <string.h>

static const struct hspz_option *
find_in(const struct hspz_option *table, const char *name, size_t len)
{
    for (; table->kind != HSPZ_OPTION_END; table++) {
        if ((strlen(table->name) == len && memcmp(table->name, name, len) == 0) ||
            (table->letter != NULL && strlen(table->letter) == len &&
             memcmp(table->letter, name, len) == 0)) {
            return table;
        }
    }
    return NULL;
}

static enum hspz_status
bad_choice(const struct hspz_option *option, const char *value, struct hspz_error *err)
{
    char all[128] = "";
    for (size_t i = 0; option->choices[i] != NULL; i++) {
        const size_t len = strlen(all);
        const char *join = i == 0 ? "" : option->choices[i + 1] == NULL ? " or " : ", ";
        strncat(all, join, sizeof(all) - len - 1);
        strncat(all, option->choices[i], sizeof(all) - strlen(all) - 1);
    }
    return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "%s \"%.100s\": it is %s", option->name, value,
                          all);
}

static enum hspz_status
set_number32(const struct hspz_option *option, const char *value, struct hspz_error *err)
{
    uint64_t number;
    HSPZ_REQUIRE(option->most <= UINT32_MAX);
    const enum hspz_status status =
        hspz_number_parse(option->name, value, option->least, option->most, &number, err);
    if (status == HSPZ_OK) {
        *(uint32_t *)option->target = (uint32_t)number;
    }
    return status;
}

static enum hspz_status
add_text(const struct hspz_option *option, const char *value, struct hspz_error *err)
{
    struct hspz_texts *texts = option->target;
    if (texts->count == HSPZ_TEXTS_MOST) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "%s: more than %u of them", option->name,
                              HSPZ_TEXTS_MOST);
    }
    texts->items[texts->count++] = value;
    return HSPZ_OK;
}

static enum hspz_status
set_value(const struct hspz_option *option, const char *value, struct hspz_error *err)
{
    switch (option->kind) {
    case HSPZ_OPTION_ANY_TEXT:
        *(const char **)option->target = value;
        return HSPZ_OK;
    case HSPZ_OPTION_LIST:
    case HSPZ_OPTION_TEXT:
        if (*value == '\0') {
            return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "%s \"\": a value is needed",
                                  option->name);
        }
        if (option->kind == HSPZ_OPTION_LIST) {
            return add_text(option, value, err);
        }
        *(const char **)option->target = value;
        return HSPZ_OK;
    case HSPZ_OPTION_NUMBER:
        return hspz_number_parse(option->name, value, option->least, option->most, option->target,
                                 err);
    case HSPZ_OPTION_NUMBER32:
        return set_number32(option, value, err);
    case HSPZ_OPTION_FRACTION:
        return hspz_fraction_parse(option->name, value, option->target, err);
    case HSPZ_OPTION_SECONDS:
    case HSPZ_OPTION_FOREVER:
        return hspz_seconds_parse(option->name, value, option->kind == HSPZ_OPTION_FOREVER,
                                  option->target, err);
    case HSPZ_OPTION_CHOICE:
        for (int i = 0; option->choices[i] != NULL; i++) {
            if (strcmp(option->choices[i], value) == 0) {
                *(int *)option->target = i;
                return HSPZ_OK;
            }
        }
        return bad_choice(option, value, err);
    default:
        HSPZ_REQUIRE(false);
        return HSPZ_E_INTERNAL;
    }
}

/* One option at argv[*i]; moves *i over a value that stands apart. */
static enum hspz_status
take_option(const struct hspz_option *own, const struct hspz_option *common, int argc, char **argv,
            int *i, struct hspz_error *err)
{
    const char *argument = argv[*i];
    const char *equals = argument[1] == '-' ? strchr(argument, '=') : NULL;
    const size_t len = equals != NULL ? (size_t)(equals - argument) : strlen(argument);
    const struct hspz_option *option = find_in(own, argument, len);
    if (option == NULL) {
        option = find_in(common, argument, len);
    }
    if (option == NULL) {
        return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "unknown option %.100s", argument);
    }
    const bool off = option->kind == HSPZ_OPTION_OFF || option->kind == HSPZ_OPTION_ZERO;
    if (off || option->kind == HSPZ_OPTION_FLAG) {
        if (equals != NULL) {
            return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "%s takes no value", option->name);
        }
        if (option->kind == HSPZ_OPTION_ZERO) {
            *(uint32_t *)option->target = 0;
        } else {
            *(bool *)option->target = !off;
        }
        return HSPZ_OK;
    }
    const char *value = equals != NULL ? equals + 1 : NULL;
    if (value == NULL) {
        if (*i + 1 >= argc) {
            return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "%s needs a value", option->name);
        }
        *i += 1;
        value = argv[*i];
    }
    return set_value(option, value, err);
}

enum hspz_status
hspz_options_parse(const struct hspz_option *own, const struct hspz_option *common, int argc,
                   char **argv, const char **operands, size_t operands_most, size_t *operand_count,
                   struct hspz_error *err)
{
    bool only_operands = false;
    *operand_count = 0;
    for (int i = 1; i < argc; i++) {
        if (!only_operands && strcmp(argv[i], "--") == 0) {
            only_operands = true;
        } else if (!only_operands && argv[i][0] == '-' && argv[i][1] != '\0') {
            const enum hspz_status status = take_option(own, common, argc, argv, &i, err);
            if (status != HSPZ_OK) {
                return status;
            }
        } else if (*operand_count == operands_most) {
            return hspz_error_set(err, HSPZ_E_BAD_REQUEST, "one argument too many: \"%.100s\"",
                                  argv[i]);
        } else {
            operands[(*operand_count)++] = argv[i];
        }
    }
    return HSPZ_OK;
}
