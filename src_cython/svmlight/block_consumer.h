// The consumer of the indices and values of a text, block by block, if they do not go to arrays: a C
// interface, so that it can be in another extension module.
#pragma once
#include <stdint.h>

#define SVMLIGHT_BLOCK_CONSUMER "svmlight_block_consumer"  // name of a capsule that holds one

typedef struct {
    int32_t* indices;
    void* values;
} svmlight_slot;

// The functions may be called from any thread, `send` by one thread at a time. They return 0 for success;
// anything else ends the parse.
typedef struct {
    void* context;
    int32_t slots;
    // Lends a slot, once its last content has been sent.
    int32_t (*lend)(void* context, int32_t slot, svmlight_slot* out);
    // Sends the content of a slot to the places from `first` on: indices, and values unless all of them are
    // 1.
    int32_t (*send)(void* context, int32_t slot, int64_t first, int64_t count, int32_t ones);
} svmlight_block_consumer;
