// AMX tiles on any processor, as far as products of bytes use them: what an instruction would fault on is counted.
#include <stdint.h>
#include <string.h>

static struct {
    uint8_t rows, bytes;
} shapes[8];
static uint8_t tiles[8][16][64];
static int configured;
int faults;

void emulated_ldtilecfg(const uint8_t *configuration) {
    faults += configuration[0] != 1;
    for (int t = 0; t < 8; t++) {
        shapes[t].bytes = configuration[16 + 2 * t];
        shapes[t].rows = configuration[48 + t];
        faults += shapes[t].bytes > 64 || configuration[17 + 2 * t] || shapes[t].rows > 16;
    }
    memset(tiles, 0, sizeof tiles);
    configured = 1;
}

void emulated_tilerelease(void) { configured = 0; }

void emulated_tilezero(int8_t t) {
    faults += !configured;
    memset(tiles[t], 0, sizeof tiles[t]);
}

void emulated_tileloadd64(int8_t t, const uint8_t *from, int64_t pitch) {
    faults += !configured;
    memset(tiles[t], 0, sizeof tiles[t]);
    for (int r = 0; r < shapes[t].rows; r++) memcpy(tiles[t][r], from + r * pitch, shapes[t].bytes);
}

void emulated_tilestored64(int8_t t, uint8_t *to, int64_t pitch) {
    faults += !configured;
    for (int r = 0; r < shapes[t].rows; r++) memcpy(to + r * pitch, tiles[t][r], shapes[t].bytes);
}

static int32_t value(uint8_t byte, int is_signed) { return is_signed ? (int8_t)byte : byte; }

static void multiply(int8_t sums, int8_t left, int8_t right, int left_signed, int right_signed) {
    faults += !configured || shapes[sums].rows != shapes[left].rows || shapes[sums].bytes != shapes[right].bytes ||
              shapes[left].bytes != 4 * shapes[right].rows;
    for (int r = 0; r < shapes[sums].rows; r++)
        for (int c = 0; c < shapes[sums].bytes / 4; c++) {
            int32_t total;
            memcpy(&total, &tiles[sums][r][4 * c], 4);
            for (int k = 0; k < shapes[left].bytes; k++)
                total += value(tiles[left][r][k], left_signed) * value(tiles[right][k / 4][4 * c + k % 4], right_signed);
            memcpy(&tiles[sums][r][4 * c], &total, 4);
        }
}

void emulated_tdpbssd(int8_t sums, int8_t left, int8_t right) { multiply(sums, left, right, 1, 1); }
void emulated_tdpbsud(int8_t sums, int8_t left, int8_t right) { multiply(sums, left, right, 1, 0); }
void emulated_tdpbusd(int8_t sums, int8_t left, int8_t right) { multiply(sums, left, right, 0, 1); }
void emulated_tdpbuud(int8_t sums, int8_t left, int8_t right) { multiply(sums, left, right, 0, 0); }
