// Copies to shared memory, which happen at once.
#pragma once
#include <string.h>

inline void __pipeline_memcpy_async(void* to, const void* from, size_t bytes) { memcpy(to, from, bytes); }
inline void __pipeline_commit() {}
inline void __pipeline_wait_prior(int) {}
