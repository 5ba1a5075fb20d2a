// Where the indices and values of a text go block by block, where that is not into arrays: a C interface, so
// that it may be in another extension module.
#pragma once
#include <stdint.h>

#define SVMLIGHT_BLOCK_CONSUMER "svmlight_block_consumer"  // name of a capsule that holds one

typedef struct {
    int32_t* indices;
    void* values;
} svmlight_slot;

// The functions are called from any thread, `send` by one at a time, and return 0 where they work: anything
// else ends the parse.
typedef struct {
    void* context;
    int32_t slots;
    // Lends a slot, as soon as what was sent from it last has left it.
    int32_t (*lend)(void* context, int32_t slot, svmlight_slot* out);
    // Sends what a slot holds to the places from `first` on: indices, and values unless all of them are 1.
    int32_t (*send)(void* context, int32_t slot, int64_t first, int64_t count, int32_t ones);
} svmlight_block_consumer;
