/* Replays corpora: every file of every folder given goes through the target once. Used where
 * libFuzzer is not linked, so that a corpus is an ordinary test. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int
replay_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        fprintf(stderr, "cannot open %s\n", path);
        return 1;
    }
    fseek(file, 0, SEEK_END);
    const long size = ftell(file);
    rewind(file);
    uint8_t *data = size < 0 ? NULL : malloc((size_t)size + (size == 0));
    const size_t got = data == NULL ? 0 : fread(data, 1, (size_t)size, file);
    const int failed = data == NULL || got != (size_t)size;
    fclose(file);
    if (failed) {
        fprintf(stderr, "cannot read %s\n", path);
    } else {
        (void)LLVMFuzzerTestOneInput(data, got);
    }
    free(data);
    return failed;
}

int
main(int argc, char **argv)
{
    size_t count = 0;
    for (int i = 1; i < argc; i++) {
        DIR *dir = opendir(argv[i]);
        if (dir == NULL) {
            fprintf(stderr, "cannot open folder %s\n", argv[i]);
            return 1;
        }
        for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
            char path[4096];
            if (entry->d_name[0] == '.') {
                continue;
            }
            snprintf(path, sizeof(path), "%s/%s", argv[i], entry->d_name);
            if (replay_file(path) != 0) {
                return 1;
            }
            count++;
        }
        closedir(dir);
    }
    printf("%zu files replayed\n", count);
    return count > 0 ? 0 : 1;
}
